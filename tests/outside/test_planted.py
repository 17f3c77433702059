"""Bugs in an outsider's model are seen by the contract that the installed package brings."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.outside import planted_topics
from tests.outside.installed import LDA, Outside, installed

pytestmark = pytest.mark.thorough  # the whole suite on eighteen models: two minutes


@pytest.fixture(scope="module")
def outside(tmp_path_factory) -> Outside:
    return installed(LDA, tmp_path_factory.mktemp("outside"))


@pytest.fixture(scope="module")
def failed(outside) -> dict[str, dict[str, str]]:
    """Run the planted bugs as an outsider would; return what was said, by class and by test."""
    shutil.copy(Path(planted_topics.__file__), outside.folder / "test_planted.py")
    outside.run("pytest", "-q", "-p", "no:cacheprovider", "--junitxml", "found.xml",
                "test_planted.py")  # fmt: skip
    found: dict[str, dict[str, str]] = {}
    for case in ElementTree.parse(outside.folder / "found.xml").iter("testcase"):
        for problem in case.iter("failure"):
            kind = found.setdefault(case.get("classname").rpartition(".")[2], {})
            kind[case.get("name").removeprefix("test_")] = problem.get("message")
    return found


@pytest.mark.parametrize("bug", planted_topics.CAUGHT)
def test_a_planted_bug_is_seen(failed, bug):
    names = failed.get(bug, {})
    unseen = {e for e in planted_topics.CAUGHT[bug] if not any(n.startswith(e) for n in names)}
    assert not unseen, f"{bug} is not seen by {unseen}; seen by {sorted(names)}"


def test_eighteen_bugs_are_planted():
    assert len(planted_topics.CAUGHT) == 18


def test_what_is_said_names_the_identity_the_place_and_the_size(failed):
    said = failed["TestStaleLocal"]["4_local_step_is_stationary[topics]"]
    assert "item 4, local_step leaves the bound stationary, is broken" in said
    assert "where: partition 0 of tiny(0), warm after sweep" in said
    assert "which moves gamma[0, " in said
    assert "away, allowed 1e-06" in said
