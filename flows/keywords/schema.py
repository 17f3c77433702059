"""Tables of keyword extraction."""

from __future__ import annotations

from flows.tables.table import (
    FLAG,
    INT32,
    INT64,
    NUMBER,
    NUMBERS,
    TEXT,
    WORDS,
    Column,
    Either,
    Table,
    list_of,
    optional,
)

_TEXT_NAMES = (
    "abstract", "body", "content", "full_text", "fulltext", "document", "article", "description",
    "summary", "message", "comment", "review", "note", "notes", "title",
)  # fmt: skip
"""What people call a column of running text, the most likely first."""

KNOWN_NAMES = (
    "keywords",
    "keyphrases",
    "keyword",
    "keyphrase",
    "author_keywords",
    "author keywords",
    "index keywords",
    "tags",
    "kw",
)
"""What people call a column of known keyphrases, in small letters."""

DOCUMENTS = Table(
    "documents",
    "Documents with some of their keyphrases; `text` or `tokens` must be there.",
    (
        Column(
            "doc_id",
            TEXT,
            "name of the document; by default the file's name and row number",
            required=False,
            accepts=(INT64,),
            names="document",
            unique=True,
        ),
        optional("text", TEXT, "running text"),
        optional("tokens", WORDS, "its words in order"),
        optional("pos", WORDS, "a Penn or universal tag per token", as_long_as="tokens"),
        optional(
            "sentence", list_of(INT64), "number of the sentence per token", as_long_as="tokens"
        ),
        optional(
            "keywords",
            WORDS,
            "known keyphrases (; between two); an empty cell: nobody has looked; where somebody "
            "found none, set `complete`, or in Parquet and JSON an empty list",
        ),
        optional(
            "scored",
            WORDS,
            "words or phrases with a score of your own, such as of an embedding or language model",
        ),
        optional(
            "scores",
            NUMBERS,
            "their scores, on any scale",
            finite=True,
            largest=1e12,
            as_long_as="scored",
        ),
        optional("complete", FLAG, "whether the known keyphrases are all of them"),
        optional("gold", WORDS, "all true keyphrases, for evaluation only"),
    ),
    row="document",
    either=Either(
        ("text", "tokens"),
        remedy="give running text or lists of words",
        fill="give the document its text, or leave it out",
        called=_TEXT_NAMES,
    ),
    details=("pos", "sentence", "scored", "scores", "gold"),
)


_DOC_ID = Column("doc_id", TEXT, "name of the document", label="document")
ASK = Table(
    "ask",
    "The documents whose labels would help most, in order.",
    (
        Column("place", INT32, "1 is the first to label"),
        _DOC_ID,
        Column("candidates", INT32, "number of its candidates"),
        Column("known", INT32, "known keyphrases among them"),
        Column("expected", NUMBER, "keyphrases that the model expects, known ones counted"),
        Column(
            "removes",
            NUMBER,
            "share (0 to 1) of the variance of wrong selections that its labels remove, beyond "
            "those before it",
            label="uncertainty removed",
        ),
    ),
)


RANKED = Table(
    "ranked",
    "Documents whose known keyphrases are ranked as if unknown, to compare with TF-IDF.",
    (
        _DOC_ID,
        Column("known", INT32, "its known keyphrases that are candidates"),
        Column("by_model", INT32, "how many of them are among its ten best", label="this model"),
        Column("by_tf_idf", INT32, "the same", label="TF-IDF"),
    ),
)


KEYWORDS = Table(
    "keywords",
    "Every candidate (one to four words) of every document with its probability.",
    (
        _DOC_ID,
        Column("term", TEXT, "the candidate in its most frequent form"),
        Column("surface", TEXT, "its form at its first occurrence"),
        Column("stem", TEXT, "its words' stems"),
        Column("words", INT32, "number of its words"),
        Column("probability", NUMBER, "probability that it is a keyphrase"),
        Column("observed", FLAG, "whether it is known", label="known"),
        Column("selected", FLAG, "whether it is recommended, or known"),
        Column("rank", INT32, "rank in its document, 1 the most probable"),
        Column("position", INT32, "tokens before its first occurrence"),
        Column("occurrences", INT32, "number of its occurrences"),
        Column("own_name", FLAG, "whether it names its document"),
        Column(
            "part_of",
            TEXT,
            "of a selected one that is not known: the longer one, selected or known, with its "
            "words in a row; else empty",
            nullable=True,
        ),
        Column(
            "gold",
            FLAG,
            "whether it is a true keyphrase; empty where these were not given",
            nullable=True,
        ),
    ),
)
