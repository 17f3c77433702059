"""What is known of documents that were read, with settings by default."""

from flows.keywords.input.reading import Reading
from vbmodels.keywords.reading_report import Named, Report


def reading(report: Report) -> Reading:
    return Reading(
        report,
        rate_from="",
        with_phrases=True,
        vocabulary_only=False,
        language="auto",
        terms=0,
        unused_terms=Named(),
        unused_labels=(),
        unread_column="",
        copies=0,
    )
