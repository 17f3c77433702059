"""The tables: one that is read, two that are published."""

from __future__ import annotations

from flows.tables.table import INT64, NUMBER, NUMBERS, TEXT, Column, Table

DOCUMENTS_IN = Table(
    "documents",
    "Documents as running text.",
    (
        Column("doc_id", TEXT, "name of the document", accepts=(INT64,), names="document",
               unique=True),
        Column("text", TEXT, "the document as running text", remedy="write an empty text as ''"),
    ),
    row="document",
)  # fmt: skip

DOCUMENT_TOPICS = Table(
    "document_topics",
    "Every document with its topics.",
    (
        Column("doc_id", TEXT, "name of the document"),
        Column("words", INT64, "words of it that are in the vocabulary"),
        Column("topic", INT64, "the topic with the largest share"),
        Column("share", NUMBER, "posterior mean of this share"),
        Column("shares", NUMBERS, "posterior means of the shares of all topics"),
    ),
)

TOPIC_WORDS = Table(
    "topic_words",
    "The first words of every topic.",
    (
        Column("topic", INT64, "number of the topic"),
        Column("rank", INT64, "place of the word among the topic's words, from 1"),
        Column("word", TEXT, "the word"),
        Column("share", NUMBER, "posterior mean of its share of the topic's words"),
        Column("sd", NUMBER, "posterior standard deviation of this share"),
    ),
)
