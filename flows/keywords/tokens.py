"""From rows to the tokens of a partition: numbered, in sentences, with their parts of speech.

Text is split as textblob's ``find_tokens`` splits it (`_text.py`, MIT licence), chunk by chunk
between blanks, and each distinct chunk once: most text is made of words that were there before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flows.keywords import token_kernels as kernels
from flows.keywords.languages import ENGLISH
from flows.keywords.text import (
    AT_THE_START,
    INSIDE_SENTENCES,
    MOST_TOKENS,
    TextOptions,
    pos_code,
    splitter,
)
from vbmodels.core.state import BoolArray, IntArray

ROWS = 256  # read at once, so that few Python objects are alive

_TITLE = re.compile(r"\A\s*(\S[^\n]*(?:\n[ \t]+\S[^\n]*)*)\n(?=[^\s])")
_TITLE_WORDS = 40
_SLASH = re.compile(r"(?<=\w\w\w)/(?=\w\w\w)")
_LINES = re.compile(r"\n{2,}")
_QUOTES = re.compile("([“”‘’'\"])")
_ENDS = ("...", ".", "!", "?")
_FOLLOW = ("”", "’", ")")


@dataclass(frozen=True)
class Tokens:
    """The tokens of D documents in reading order.

    Parameters
    ----------
    names
        [V] the distinct tokens as they are written.
    token
        [T] number of each.
    pos
        [T] a code of ``POS_GROUPS``, `OTHER` or `UNKNOWN`.
    sentence
        [T] its number, `UNKNOWN` where the document's sentences are not known.
    offsets
        [D + 1] where each document begins.
    told
        [D] whether the document's sentences are known.
    """

    names: list[str]
    token: IntArray
    pos: IntArray
    sentence: IntArray
    offsets: IntArray
    told: BoolArray


class _Numbers(dict[Any, int]):
    """Numbers of things, as they come."""

    def __missing__(self, thing: Any) -> int:
        number = self[thing] = len(self)
        return number


class _Pieces(dict[str, tuple[str, ...]]):
    """The tokens of what stands between two blanks, each worked out once."""

    def __init__(self, english: bool) -> None:
        super().__init__()
        self._english = english

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        if len(self) >= MOST_TOKENS:
            self.clear()
        text = _SLASH.sub(" / ", chunk)
        if self._english:
            text = text.replace("n't", " n't")
        text = _QUOTES.sub(r" \1 ", text)
        found = self[chunk] = tuple(t for piece in text.split() for t in _without_signs(piece))
        return found


_PIECES = {english: _Pieces(english) for english in (True, False)}


def _without_signs(piece: str) -> list[str]:
    """Split the signs before and after a word from it; the period of an abbreviation stays."""
    lib = splitter()
    signs = tuple(lib.PUNCTUATION.replace(".", ""))
    before: list[str] = []
    after: list[str] = []
    while piece.startswith(signs):
        before.append(piece[0])
        piece = piece[1:]
    while piece.endswith((*signs, ".")):
        if piece.endswith(signs):
            after.append(piece[-1])
            piece = piece[:-1]
        if piece.endswith("..."):
            after.append("...")
            piece = piece[:-3].rstrip(".")
        if piece.endswith("."):
            if piece in lib.ABBREVIATIONS or any(
                rule.match(piece) for rule in (lib.RE_ABBR1, lib.RE_ABBR2, lib.RE_ABBR3)
            ):
                break
            after.append(piece[-1])
            piece = piece[:-1]
    return [*before, *([piece] if piece else []), *reversed(after)]


def _chunks(text: str) -> list[str]:
    """Return what stands between blanks, empty lines and the end of a title as marks.

    The first line is a title, a sentence of its own, when it has at most 40 words and the
    next line begins with a capital, a digit or a quotation mark; indented lines continue it.
    """
    if "\n" in text:
        found = _TITLE.match(text)
        if found and len(found[1].split()) <= _TITLE_WORDS and not text[found.end()].islower():
            text = f"{found[1]}\n\n{text[found.end() :]}"
        text = _LINES.sub(f" {splitter().EOS} ", text.replace("\r\n", "\n"))
    return text.split()


def read_tokens(documents: pa.Table, options: TextOptions) -> Tokens:
    """Return the tokens of a table's rows; text is split where a row has no tokens."""
    english = options.language == ENGLISH
    chunks, tags = _Numbers(), _Numbers()
    sizes, codes, given = [0], [], []
    pos: list[Any] = []
    sentence: list[Any] = []
    for text, tokens, tag, lines in columns_of(documents, ("text", "tokens", "pos", "sentence")):
        # What is given is one token, whatever stands in it.
        keys = _chunks(text or "") if tokens is None else zip(tokens)
        code = np.fromiter(map(chunks.__getitem__, keys), np.int64)
        codes.append(code)
        sizes.append(len(code))
        given.append(tokens is not None)
        pos.append(None if tokens is None or tag is None else [tags[one] for one in tag])
        sentence.append(None if tokens is None else lines)
    numbers = _Numbers()
    pieces = _PIECES[english]
    parts = [chunk if isinstance(chunk, tuple) else pieces[chunk] for chunk in chunks]
    each = np.fromiter(map(numbers.__getitem__, chain.from_iterable(parts)), np.int64)
    token, where, offsets, odd = kernels.split(
        np.concatenate([np.zeros(0, np.int64), *codes]),
        np.cumsum(sizes),
        np.cumsum([0, *map(len, parts)]),
        each,
        np.array(given, bool),
        *_signs(list(numbers)),
    )
    found = Tokens(list(numbers), token, token, where, offsets, ~np.array(given, bool))
    if odd.any():
        found = _with_emoticons(found, odd, numbers)
    found = replace(found, pos=_tagged(found, english and options.tag))
    code_of = np.array([pos_code(tag) for tag in tags], np.int64)
    for d, (tag, lines) in enumerate(zip(pos, sentence, strict=True)):
        own = slice(found.offsets[d], found.offsets[d + 1])
        if given[d]:
            found.pos[own] = kernels.UNKNOWN if tag is None else code_of[tag]
        if lines is not None:
            found.sentence[own], found.told[d] = lines, True
    return found


def columns_of(documents: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield rows of these columns, None where there is no such column, a slice at a time."""
    for batch in documents.to_batches(max_chunksize=ROWS):
        there = batch.schema.names
        nothing = [None] * batch.num_rows
        yield from zip(
            *(batch[name].to_pylist() if name in there else nothing for name in names), strict=True
        )


def _tagged(tokens: Tokens, tag: bool) -> IntArray:
    """Return parts of speech [T] by the tagger; all unknown where there is none."""
    if not tag:
        return np.full(len(tokens.token), kernels.UNKNOWN)
    begins = np.ones(len(tokens.token), bool)
    begins[1:] = tokens.sentence[1:] != tokens.sentence[:-1]
    begins[tokens.offsets[:-1][tokens.offsets[:-1] < len(begins)]] = True
    found = np.empty(len(begins), np.int64)
    for rows, code_of in ((begins, AT_THE_START), (~begins, INSIDE_SENTENCES)):
        own, place = distinct(tokens.token[rows], len(tokens.names))
        names = map(tokens.names.__getitem__, own.tolist())
        found[rows] = np.fromiter(map(code_of.__getitem__, names), np.int64, len(own))[place]
    return found


def distinct(numbers: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return ``unique(numbers, return_inverse=True)`` of numbers below ``size``, unsorted."""
    there = np.zeros(size, bool)
    there[numbers] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def _signs(names: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return kind, late and early of tokens, as `kernels.split` has them."""
    kinds = {name: kernels.ENDS | kernels.FOLLOWS for name in _ENDS}
    kinds |= dict.fromkeys(_FOLLOW, kernels.FOLLOWS)
    kinds[splitter().EOS] = kernels.ENDS | kernels.FOLLOWS | kernels.BREAK
    late, early = _halves()
    return (
        np.array([kinds.get(name, 0) for name in names], np.uint8),
        np.array([late.get(name, 0) for name in names], np.uint64),
        np.array([early.get(name[-1:], 0) for name in names], np.uint64),
    )


@cache
def _halves() -> tuple[dict[str, int], dict[str, int]]:
    """Bits of the characters that stand before a token which may end an emoticon, and of each.

    textblob takes the blanks out of ``: )`` and of ``( ! )``: only there tokens are joined.
    """
    signs = {sign for group in splitter().EMOTICONS.values() for sign in group} | {"(!", "!)"}
    bit: dict[str, int] = {}
    late: dict[str, int] = {}
    for sign in sorted(signs):
        for cut in range(1, len(sign)):
            own = bit.setdefault(sign[cut - 1], 1 << len(bit))
            late[sign[cut:]] = late.get(sign[cut:], 0) | own
    return late, bit


def _with_emoticons(tokens: Tokens, odd: BoolArray, numbers: _Numbers) -> Tokens:
    """Join the tokens of emoticons in the sentences that may have any."""
    lib = splitter()
    document = np.searchsorted(tokens.offsets, np.flatnonzero(odd), side="right") - 1
    pieces, wheres, sizes, done = [], [], np.diff(tokens.offsets), 0
    places = zip(document, tokens.sentence[odd], strict=True)
    for d, number in dict.fromkeys((int(a), int(b)) for a, b in places):
        first = int(tokens.offsets[d])
        own = tokens.sentence[first : tokens.offsets[d + 1]]
        low, high = (first + int(i) for i in np.searchsorted(own, [number, number + 1]))
        line = " ".join(tokens.names[i] for i in tokens.token[low:high])
        line = lib.RE_EMOTICONS.sub(
            lambda m: m.group(1).replace(" ", "") + m.group(2), lib.RE_SARCASM.sub("(!)", line)
        )
        new = [numbers[name] for name in line.split(" ")]
        pieces += [tokens.token[done:low], np.array(new, np.int64)]
        wheres += [tokens.sentence[done:low], np.full(len(new), number)]
        sizes[d] += len(new) - (high - low)
        done = high
    return replace(
        tokens,
        names=list(numbers),
        token=np.concatenate([*pieces, tokens.token[done:]]),
        sentence=np.concatenate([*wheres, tokens.sentence[done:]]),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
    )
