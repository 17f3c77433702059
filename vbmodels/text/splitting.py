"""Running text to sentences of tokens, in any script that puts spaces between words.

A token is a word with the signs inside it (COVID-19, TNF-α, 2,4-D, S&P, Node.js, C++, Fe2+), an
address, or a single sign. Sentences end at the full stops of every script, at empty lines and
before items of lists. Scripts without spaces are cut by `vbmodels.text.languages` first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from vbmodels.text.cleaning import visible
from vbmodels.text.languages import segmented


def _ranges(characters: list[int]) -> str:
    """Return the inside of a class of a regular expression that has these characters."""
    runs: list[list[int]] = []
    for code in characters:
        if runs and code == runs[-1][1] + 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in runs)


_MARKS = _ranges([c for c in range(0x300, 0x10000) if unicodedata.category(chr(c))[0] == "M"])
_W = rf"[\w{_MARKS}\u200c\u200d]"  # letters, digits, marks of vowels, joiners
_HYPHENS = "-\u2010\u2011\u2012\u2013"
_OPERATORS = r"=<>±×÷→←↔≤≥≈≡∞∝∂∑∫√^°·⋅∘"
_QUOTES = "'\u2019\u02bc"
_ELIDED = (
    r"(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quelqu|presqu|dell|all|nell|sull|dall|coll|gl|un|quest)"
)
"""What French, Italian and Catalan put before an apostrophe: a word of its own."""
_SPECIES = r"[A-Z]\.[ ]?[a-z]{4,}"
SPECIES = re.compile(_SPECIES)  # a genus by its letter, and what follows it
_WORD = rf"""
    \.(?=[A-Z]{{2}}){_W}+                    # .NET
  | {_W}+
    (?: [{_HYPHENS}&]{_W}+                  # check-in, S&P
      | [{_QUOTES}](?!s(?!{_W})){_W}+       # O'Reilly, rock'n'roll; not Rust's
      | \.(?![A-Z][a-z]){_W}+               # Node.js, 3.5
      | (?<=\d),(?=\d){_W}+                 # 1,000 and 2,4-D
      | (?<=(?<!\w)[A-Z]),(?=[A-Z]-){_W}+    # N,N-dimethyl
      | (?<=\d)[{_QUOTES}′](?:-{_W}+)?      # 3'-UTR
      | \+[/-]{_W}+                        # Na+/K+-ATPase
      | (?<!\w\w\w)/{_W}+                   # I/O
      | /\w{{1,2}}(?!{_W})                  # TCP/IP
      | [{_OPERATORS}]+{_W}*               # p<0.05, 5±2: formulae, which are no words
    )*
    (?: \+{{1,2}}(?![\w+])                  # C++, Fe2+
      | (?<=(?<!\w)[A-Z])\#(?!\w)          # C#
    )?
"""
_BLANKS = re.compile(r"[ \t]{2,}")
_TOKEN = re.compile(
    rf"""
    (?P<gap> \s*\n\s*\n\s* | \s*\n[ \t]*[-*•‣▪–][ \t]+ | \f )
  | (?:RT\s+)?(?<!\w)@\w+              # whom a message is to
  | (?:https?|ftp)://\S+ | www\.\S+ | [\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+
  | (?<!{_W})(?i:{_ELIDED})[{_QUOTES}](?={_W})   # l'eau
  | (?:[^\W\d_]\.){{2,}}                    # e.g., U.S.
  | {_SPECIES}(?!{_W})                      # E. coli
  | {_WORD}
  | [{_QUOTES}]s(?!{_W})
  | \.\.+
  | [^\s]
    """,
    re.VERBOSE,
)
_ENDS = frozenset(".!?…‽。！？｡．؟۔।॥။።፧។៕᠃᠉‼⁇⁈⁉")
_CLOSING = frozenset("\"'”’»)]」』）")
_ABBREVIATIONS = """
    al approx bd eg ie bzw ca cf co corp dept dr ed eds eq eqs etc fig figs hr inc jr ltd mr mrs ms
    nr p pp prof ref refs resp sr st vol vols vs
"""
ABBREVIATED = frozenset(_ABBREVIATIONS.split())
"""Words after which a full stop ends no sentence."""


_FIELD = re.compile(r"[ \t]*[A-Z][\w-]*(?: [\w-]+){0,2}:(?:[ \t]|$)")
_WIDTH = 40  # characters of lines that are no lines of a paragraph
_SHORT = 0.75  # of the lines' width


def with_line_ends(text: str) -> str:
    """Return a text with a paragraph's end where a line's end is one.

    It is before a line that begins with a name and a colon; and behind a short line, whose width
    would have had room for the next word. Where lines are shorter than 40 characters all are short.

    >>> with_line_ends("Subject: Varroa mites\\nDate: 3 June")
    'Subject: Varroa mites\\n\\nDate: 3 June'
    """
    lines = text.split("\n")
    sizes = sorted(map(len, lines), reverse=True)
    half, width = len(text) / 2, 0
    for size in sizes:  # at least half of the text is in lines as long as this
        half, width = half - size, size
        if half <= 0:
            break
    kept = lines[:1]
    for before, line in pairwise(lines):
        room = len(before) + 1 + len(line.split(maxsplit=1)[0]) if line.strip() else 0
        short = width < _WIDTH or room < _SHORT * width
        if before.strip() and line.strip() and (short or _FIELD.match(line)):
            kept.append("")
        kept.append(line)
    return "\n".join(kept)


def split_sentences(
    text: str, language: str | None = None, whole: Sequence[str] = ()
) -> list[list[str]]:
    """Return the tokens of a text, sentence by sentence.

    Parameters
    ----------
    text
        The text.
    language
        Its language, which matters where it has no spaces between words; None: by its script.
    whole
        Terms that no word may cross the ends of, where the script has no spaces.

    Examples
    --------

    >>> split_sentences("COVID-19 isn't new. C++, Dr. No: 3.5 %!")
    [['COVID-19', "isn't", 'new', '.'], ['C++', ',', 'Dr.', 'No', ':', '3.5', '%', '!']]
    """
    text = _BLANKS.sub(" ", segmented(text, language, whole))
    sentences: list[list[str]] = []
    tokens: list[str] = []
    ended = False
    for found in _TOKEN.finditer(text):
        token = found[0]
        if found.lastgroup == "gap":
            if tokens:
                sentences.append(tokens)
            tokens, ended = [], False
            continue
        if ended and token not in _CLOSING and token not in _ENDS:
            sentences.append(tokens)
            tokens, ended = [], False
        if token == "al" and tokens and tokens[-1].lower() == "et":
            token = "al."
        if token == "." and tokens and tokens[-1] == "al.":
            continue
        if token == "." and tokens and _is_abbreviation(tokens[-2:], text, found.end()):
            tokens[-1] += "."
            continue
        tokens.append(token)
        ended = token in _ENDS or (ended and token in _CLOSING)
    if tokens:
        sentences.append(tokens)
    return sentences


def _is_abbreviation(words: list[str], text: str, end: int) -> bool:
    """Return whether the full stop after the last of one or two words belongs to it."""
    word = words[-1]
    if word.lower() in ABBREVIATED:
        return text[end : end + 1].isspace()
    if "." in word and word[-1].isalpha():  # Ph.D. students
        return text[end : end + 2].strip().islower() and text[end : end + 1].isspace()
    initial = len(word) == 1 and word.isascii() and word.isupper() and word != "I"
    if not (initial and text[end : end + 3].lstrip()[:1].isupper()):  # J. Smith
        return False
    elsewhere = rf"\b{re.escape(words[0])}\s+{word}\b(?!\.)"  # vitamin D
    return len(words) < 2 or re.search(elsewhere, text, re.IGNORECASE) is None


def split_words(term: str, language: str | None = None) -> list[str]:
    """Return the tokens of a term of a few words."""
    return [token for line in split_sentences(visible(term), language) for token in line]
