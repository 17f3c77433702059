"""The packages of an environment as documents."""

from importlib.metadata import Distribution

import pytest

from flows.cli.demo import installed_packages, split_keywords
from vbmodels.text.cleaning import without_markdown

MARKDOWN = """# pkg

[![build](https://x.org/badge.svg)](https://x.org) <img src="logo.png" alt="logo">

<p align="center">A <b>fast</b> parser &amp; writer</p>

See the [user guide](https://x.org/guide) or `pkg` and `pip install pkg`.

```python
import secret_code
```

    indented_code()

- first *point*
"""
RST = """
pkg
===

.. image:: https://x.org/badge.svg
    :alt: badge

A **fast** parser, see the `user guide <https://x.org/guide>`_ and :class:`pkg.Parser`.

Example::

    secret_code()

>>> secret_code()

After the code |badge|.
"""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (MARKDOWN, ["user guide", "fast parser & writer", "first point", "or pkg and"]),
        (RST, ["A fast parser", "user guide", "pkg.Parser", "After the code"]),
    ],
)
def test_mark_up_and_code_are_stripped(text, kept):
    flat = " ".join(without_markdown(text).split())
    assert [piece for piece in kept if piece not in flat] == []
    noise = ("secret_code", "indented", "http", "badge", "<", "===", "install")
    assert [piece for piece in noise if piece in flat] == []


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, []),
        ("UNKNOWN", []),
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
        self._text = "".join(f"{name}: {value}\n" for name, value in headers.items())

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
        {"doc_id": "Zeta", "text": "A graph library", "keywords": ["graph"]},
    ]


def test_authors_are_no_part_of_a_packages_text():
    folder = {
        "METADATA": "Name: pkg\nSummary: Fast maps\nAuthor: Ada Q. Byron\n"
        'Author-email: "Jo Li" <jo@x.org>, dev@x.org\n\nMaps by Ada Q. Byron and Jo Li of rivers.'
    }

    class Package(Distribution):
        def read_text(self, filename):
            return folder.get(filename)

        def locate_file(self, path):
            return path

    (row,) = installed_packages([Package()]).to_pylist()
    assert row["text"].split() == ["Fast", "maps", "Maps", "by", "and", "of", "rivers."]
