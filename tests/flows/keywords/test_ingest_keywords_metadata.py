"""The packages of an environment as documents."""

from email.message import Message
from importlib.metadata import Distribution

import pytest

from flows.keywords.check import check_documents
from flows.keywords.documents import prepare
from flows.keywords.metadata import installed_packages, plain_text, split_keywords
from flows.keywords.text import TextOptions
from tests.flows.keywords.one_corpus import features_of

MARKDOWN = """# pkg

[![build](https://x.org/badge.svg)](https://x.org) <img src="logo.png" alt="logo">

<p align="center">A <b>fast</b> parser &amp; writer</p>

See the [user guide](https://x.org/guide) or `pkg` and `pip install pkg`.

```python
import secret_code
```

    indented_code()

| column | other |
|--------|-------|
| cell   | cell  |

- first *point*
"""

RST = """
pkg
===

.. image:: https://x.org/badge.svg
    :target: https://x.org
    :alt: badge

A **fast** parser, see the `user guide <https://x.org/guide>`_ and :class:`pkg.Parser`.

Example::

    secret_code()

    more_code()

.. code:: python

    import secret_code

>>> secret_code()

====== =====
column other
====== =====

After the code |badge|.
"""


@pytest.mark.parametrize(
    ("text", "kind", "kept"),
    [
        (MARKDOWN, "text/markdown; charset=UTF-8", ["user guide", "fast parser & writer"]),
        (MARKDOWN, None, ["user guide", "first point"]),
        (RST, "text/x-rst", ["A fast parser", "user guide", "pkg.Parser", "After the code"]),
        (RST, None, ["Example"]),
    ],
)
def test_mark_up_and_code_are_stripped(text, kind, kept):
    plain = plain_text(text, kind)
    flat = " ".join(plain.split())
    for piece in kept:
        assert piece in flat
    for noise in ("secret_code", "indented", "more_code", "http", "badge", "<", "===", "install"):
        assert noise not in flat, noise


def test_plain_text_stays():
    assert plain_text("One line.\nTwo *lines*.\n\nThe end.", "text/plain") == (
        "One line. Two *lines*.\n\nThe end."
    )


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, []),
        ("", []),
        ("UNKNOWN", []),
        ("one two", ["one", "two"]),
        ("one two, three,one two", ["one two", "three"]),
        ("a;b", ["a", "b"]),
        ('"data validation",json', ["data validation", "json"]),
    ],
)
def test_keyword_headers(header, expected):
    assert split_keywords(header) == expected


class Package(Distribution):
    """An installed package with the given metadata."""

    def __init__(self, **headers):
        message = Message()
        for name, value in headers.items():
            message[name.replace("_", "-")] = value
        self._text = message.as_string()

    def read_text(self, filename):
        return self._text if filename == "METADATA" else None

    def locate_file(self, path):
        return path


def test_packages_become_documents():
    found = installed_packages(
        [
            Package(Name="Zeta", Summary="A graph library", Keywords="graph,trees"),
            Package(Name="alpha_x", Summary="UNKNOWN"),
            Package(Name="zeta", Summary="Shadowed by the first"),
        ]
    )
    assert found.to_pylist() == [
        {"doc_id": "alpha_x", "text": "", "keywords": None},
        {"doc_id": "Zeta", "text": "A graph library", "keywords": ["graph", "trees"]},
    ]


def test_this_environment_can_be_fitted():
    documents = installed_packages()
    names = documents["doc_id"].to_pylist()
    assert {"numpy", "pyarrow", "pytest"} <= set(names)
    assert check_documents([(0, documents)], "the environment")[0].found.faults() == []
    prepared = prepare(documents, TextOptions(min_count=1), False)
    (batch,) = features_of(prepared, documents=len(documents))
    assert batch.n_documents > 0.9 * len(documents)
    assert batch.y.sum() > 50
