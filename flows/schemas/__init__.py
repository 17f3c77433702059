"""Every table once: column, type, unit, meaning, nullability; a file a family."""

from flows.schemas.bags import BAGS, INSTANCES, INSTANCES_IN
from flows.schemas.experts import EXPERTS, expert_rows
from flows.schemas.features import FEATURE_WEIGHTS, IMPUTED, feature_rows
from flows.schemas.keywords import DOCUMENTS, KEYWORDS
from flows.schemas.run import POSTERIOR, TRACE
from flows.schemas.table import Column, Table
from flows.schemas.variants import COUNTS, LOCI

__all__ = [
    "BAGS",
    "COUNTS",
    "DOCUMENTS",
    "EXPERTS",
    "FEATURE_WEIGHTS",
    "IMPUTED",
    "INSTANCES",
    "INSTANCES_IN",
    "KEYWORDS",
    "LOCI",
    "POSTERIOR",
    "TRACE",
    "Column",
    "Table",
    "expert_rows",
    "feature_rows",
]
