"""A page of an outsider's pipeline, by the Sphinx extension that comes with vbflows."""

from __future__ import annotations

import html
import re

from tests.outside.installed import COUNTS, installed


def test_a_page_of_an_installed_pipeline_says_what_its_code_says(tmp_path):
    outside = installed(COUNTS, tmp_path)
    (outside.folder / "conf.py").write_text('extensions = ["myst_parser", "flows.sphinx"]\n')
    page = "# Counts\n\n```{pipeline} counts\n```\n"
    (outside.folder / "index.md").write_text(page)
    done = outside.run("sphinx", "-q", "-W", "-b", "html", ".", "site")
    assert done.returncode == 0, done.stderr
    text = (outside.folder / "site" / "index.html").read_text()
    said = " ".join(html.unescape(re.sub("<[^>]+>", " ", text)).split())
    for words in (
        "What is the rate of each group, and how much do rates differ?",
        "What goes in Groups with two counts each.",
        "What comes out rates/ Every group with the posterior of its rate.",
        "posterior mean of its rate",
        "shape 2.0 number > 0 Shape a of the Gamma of the groups’ rates.",
    ):
        assert words in said, said
    assert "checkpoint_every" not in said
