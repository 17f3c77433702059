"""The documentation's build: Markdown pages, tables from the code, the API from docstrings."""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [
    str(HERE.parent),
    str(HERE / "_extensions"),
    str(HERE.parent / "tests" / "outside" / "vbflows_counts"),
]

project = "vbflows"
author = "The vbflows team"
copyright = "2026, The vbflows team. Licence: Apache 2.0"
version = release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"][
    "version"
]

extensions = [
    "equations",
    "formulae",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
]
exclude_patterns = ["_build"]

smartquotes_action = "qe"  # no dashes: two hyphens are an option
html_theme = "furo"
pygments_style = "sas"  # no red, which reads as an error
html_title = f"vbflows {version}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Headings of included benchmarks start deeper; two classes are named Gaussian.
suppress_warnings = ["myst.header", "ref.python"]

highlight_language = "none"  # indented blocks are formulae
autodoc_type_aliases = {name: name for name in ("BoolArray", "FloatArray", "IntArray")}
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
