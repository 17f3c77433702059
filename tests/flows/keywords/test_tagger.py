"""The tagger comes without what textblob's package loads for its corpora, and tags alike."""

import subprocess
import sys

import pytest

from vbmodels.text.splitting import split_sentences
from vbmodels.text.tokens import Labels, Row, read_tokens
from vbmodels.text.words import INSIDE_SENTENCES, TextOptions, _parser, pos_code

TAGS = """
from vbmodels.text.words import _parser
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


@pytest.mark.thorough
def test_the_tagger_loads_no_corpora_leaves_textblob_whole_and_tags_alike():
    assert printed(BARE) == printed(WHOLE) != ""


TEXT = (
    "May flowers may bloom. Testing the unheardoffly lexicon, Testing it 3.5 times!\n\n"
    "Non-linear programs were tested; U.S. tests cost $5 (or 7%). running Runs ran RUN"
)


def test_a_token_has_the_tag_that_it_has_in_its_sentence(monkeypatch):
    """Though each is computed once, whatever its neighbours are, in a memory of a limited size."""
    monkeypatch.setattr("vbmodels.text.words.MOST_TOKENS", 5)
    lines = split_sentences(TEXT)
    assert len(lines) > 3
    tagged = [pos_code(tag) for line in lines for _, tag in _parser().find_tags(line)]
    for _ in range(2):
        assert read_tokens([Row(Labels("d"), TEXT)], TextOptions())[0].pos.tolist() == tagged
    assert len(INSIDE_SENTENCES) <= 5
