"""Tables of keyword extraction."""

from __future__ import annotations

from flows.data.table import (
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
    "keywords", "keyphrases", "keyword", "keyphrase", "author_keywords", "author keywords",
    "index keywords", "tags", "kw",
)  # fmt: skip
"""What people call a column of known keyphrases, in small letters."""

DOCUMENTS = Table(
    "documents",
    "Documents with some of their keyphrases; either `text` or `tokens` must be there.",
    (
        Column(
            "doc_id",
            TEXT,
            "name of the document; the file's name and the row's number when absent",
            required=False,
            accepts=(INT64,),
            names="document",
            unique=True,
        ),
        optional("text", TEXT, "the document as running text"),
        optional("tokens", WORDS, "its words in order"),
        optional("pos", WORDS, "a Penn or universal tag per token", as_long_as="tokens"),
        optional(
            "sentence", list_of(INT64), "number of the sentence per token", as_long_as="tokens"
        ),
        optional(
            "keywords",
            WORDS,
            "known keyphrases; an empty cell: nobody has looked. Where somebody looked and "
            "found none, set `complete` to yes (in Parquet and JSON lines an empty list also says "
            "that somebody looked)",
        ),
        optional(
            "scored",
            WORDS,
            "words or phrases that have a score of your own: of an embedding, a language model, "
            "another tool",
        ),
        optional(
            "scores",
            NUMBERS,
            "these scores, on any scale",
            finite=True,
            largest=1e12,
            as_long_as="scored",
        ),
        optional("complete", FLAG, "whether the known keyphrases are all of them"),
        optional("gold", WORDS, "all true keyphrases, for evaluation only: no model sees them"),
    ),
    row="document",
    either=Either(
        ("text", "tokens"),
        remedy="give the documents as running text or as lists of words",
        fill="give the document its text, or leave it out",
        called=_TEXT_NAMES,
    ),
    details=("pos", "sentence", "scored", "scores", "gold"),
)


_LABELLED = ("keywords", "complete", "gold")
LABELS = Table(
    "labels",
    "Known keyphrases of documents that are files of the same folder, in a table called keywords.",
    (
        Column(
            "doc_id",
            TEXT,
            "name of the document's file, with its ending or without",
            names="document",
            unique=True,
        ),
        *(column for column in DOCUMENTS.columns if column.name in _LABELLED),
    ),
    row="document",
)


ASK = Table(
    "ask",
    "The documents whose labels would help most, in the order in which to label them.",
    (
        Column("place", INT32, "1 is the first to label"),
        Column("doc_id", TEXT, "name of the document"),
        Column("candidates", INT32, "number of its candidate phrases or words"),
        Column("known", INT32, "number of known keyphrases among them"),
        Column(
            "expected", NUMBER, "number of keyphrases that the model expects, known ones counted"
        ),
        Column(
            "removes",
            NUMBER,
            "share (0 to 1) of the uncertainty (variance) of the number of wrong selections that "
            "its labels remove, beyond the documents before it",
        ),
    ),
)


RANKED = Table(
    "ranked",
    "Documents on whose known keyphrases, ranked as if they were not known, TF-IDF is compared.",
    (
        Column("doc_id", TEXT, "name of the document"),
        Column("known", INT32, "number of its known keyphrases that are candidates"),
        Column("by_model", INT32, "how many of them are among its ten best by the model"),
        Column("by_tf_idf", INT32, "how many of them are among its ten best by TF-IDF"),
    ),
)


KEYWORDS = Table(
    "keywords",
    "Every candidate (a phrase of one to four words, or a word) of every document with its "
    "probability.",
    (
        Column("doc_id", TEXT, "name of the document"),
        Column("term", TEXT, "the candidate in its most frequent written form"),
        Column("surface", TEXT, "as it is written at its first occurrence"),
        Column("stem", TEXT, "its words' stems"),
        Column("words", INT32, "number of its words"),
        Column(
            "probability", NUMBER, "probability that it is a keyphrase; a score for ss and textrank"
        ),
        Column("observed", FLAG, "whether it is a known keyphrase"),
        Column("selected", FLAG, "whether it is recommended as a keyphrase, or known"),
        Column("rank", INT32, "rank in its document, 1 is the most probable"),
        Column("position", INT32, "tokens of the document before its first occurrence"),
        Column("occurrences", INT32, "number of its occurrences in the document"),
        Column("own_name", FLAG, "whether it is the name of its document"),
        Column(
            "part_of",
            TEXT,
            "of a selected one that is not known: the longer selected or known one of its "
            "document that has its words in a row; empty if there is none",
            nullable=True,
        ),
        Column(
            "gold",
            FLAG,
            "whether it is one of the true keyphrases; empty where these were not given",
            nullable=True,
        ),
    ),
)
