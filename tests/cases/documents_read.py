"""Documents that were read: their candidates, and what is known of them by default."""

from flows.keywords.input.documents import Prepared
from flows.keywords.input.reading import Reading
from vbmodels.text.candidates import Spans, spans_of
from vbmodels.text.reading import Named, Report
from vbmodels.text.result_rows import Written, written


def reading(report: Report) -> Reading:
    return Reading(
        report,
        rate_from="",
        with_phrases=True,
        vocabulary_only=False,
        language="auto",
        terms=0,
        unused_terms=Named(),
        unread_column="",
        copies=0,
    )


def candidates(prepared: Prepared, phrases: bool = True) -> tuple[Spans, Written]:
    """Return where the candidates of documents are, and how each is written."""
    stems = prepared.vocabulary.to_pylist()
    spans = spans_of(prepared.tokens, stems, phrases)
    forms = prepared.forms.to_pylist()
    return spans, written(prepared.tokens, spans, stems, prepared.marks, forms)
