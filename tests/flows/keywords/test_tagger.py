"""The tagger comes without what textblob's package loads for its corpora, and tags alike."""

from __future__ import annotations

import subprocess
import sys

TAGS = """
from flows.keywords.text import _parser
print(_parser().find_tags("The quick brown foxes were jumping over London 's lazy dogs".split()))
"""
BARE = f"""{TAGS}
import sys
assert "nltk" not in sys.modules and "sklearn" not in sys.modules, "more than the tagger is loaded"
from textblob import TextBlob
assert "nltk" in sys.modules and TextBlob("two words").raw == "two words"
"""
WHOLE = f"import textblob\n{TAGS}"


def printed(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tagger_loads_no_corpora_leaves_textblob_whole_and_tags_alike():
    assert printed(BARE) == printed(WHOLE) != ""
