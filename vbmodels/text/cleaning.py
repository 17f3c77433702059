"""Text as it comes to text as it is read: markup, hyphens of line ends and running heads go.

What a document looks like decides: HTML and XML by tags that close, Markdown and wiki text by two
of their signs, LaTeX by its commands. Text that looks like none of them stays as it is.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from typing import NamedTuple


class Cleaned(NamedTuple):
    """A text, and what was taken out of it: names of markup languages, running heads."""

    text: str
    removed: tuple[str, ...] = ()


def cleaned(text: str) -> Cleaned:
    """Return a text without markup, hyphens of line ends and running heads.

    >>> cleaned("<h1>Soil erosion</h1><p>Slopes &amp; rain.</p>")
    Cleaned(text='Soil erosion\\n\\nSlopes & rain.', removed=('HTML',))
    >>> cleaned("We study \\\\emph{heat flow} in $R^n$, see \\\\cite{a}.").text
    'We study heat flow in , see .'
    >>> cleaned("An implemen-\\ntation of x < y").text
    'An implementation of x < y'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _NO_CHARACTER.sub(" ", text)
    removed = []
    if ("\\" in text or "$" in text) and _COMMAND.search(text):
        text = _without_latex(text)
        removed.append("LaTeX")
    if looks_like_html(text):
        text = without_tags(text)
        removed.append("HTML")
    elif _ENTITY.search(text):
        text = html.unescape(text)
    text = visible(text)
    if looks_like_markdown(text):
        text = without_markdown(text)
        removed.append("Markdown")
    if "\n" in text or "\f" in text:
        without = _without_running_heads(text)
        if without != text:
            removed.append("running heads")
        text = _with_whole_words(without)
    return Cleaned(text, tuple(removed))


# Characters.

_INVISIBLE = re.compile(
    "\u00ad(?:[ \t]*\n[ \t]*)?"  # a soft hyphen joins what a line's end cut
    "|[\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    "|(?<![\u0530-\U0010ffff])[\u200c\u200d]"  # Persian, Hindi and others need these
)
# What Thai, Lao, Burmese and Khmer may set between words.
_WORD_ENDS = re.compile("(?<=[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\u200b")
# Letters and digits; of Thai and Lao the compatible ones are no way to write a word.
_COMPATIBLE = re.compile(r"[^\W\x00-\x7f\u0e00-\u0eff]+")


def visible(text: str) -> str:
    """Return a text without invisible characters, its ligatures as letters (NFKC).

    >>> visible("polli\\u00adnation of \\ufb02oor\\u200bs")
    'pollination of floors'
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", _INVISIBLE.sub("", _WORD_ENDS.sub(" ", text)))
    return _COMPATIBLE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)


# HTML and XML.

_PAIR = re.compile(r"<([A-Za-z][\w:.-]*)(?:\s[^<>]*)?>[\s\S]*?</\1\s*>")
_TAG = re.compile(r"</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>|<!")
_PER_SIGN = 5000
"""Characters of a text for each sign of markup that it has at least."""
_SINGLE = re.compile(r"<(?:br|hr|p|li|img|!doctype|!--)\b[^<>]*>", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:amp|lt|gt|nbsp|shy|quot|apos|[mn]dash|[lr][sd]quo|#\d{2,6}|#x[\da-f]+);")
_NO_CHARACTER = re.compile(r"&#\d{20,};?")
_NO_SECTION = re.compile(r"<!\[(?!CDATA\[)[^<>]*>?")
"""What stands like a marked section and is none: Python's parser has no word for it."""
_DROPPED = frozenset(["script", "style", "noscript", "template", "svg", "math", "button", "select"])
_INLINE = frozenset((
    "a", "abbr", "b", "bdi", "big", "cite", "del", "dfn", "em", "font", "i", "ins", "italic",
    "bold", "kbd", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time",
    "tt", "u", "var", "xref", "wbr",
))  # fmt: skip


def looks_like_html(text: str) -> bool:
    """Return whether a text has tags that close, or two that need not."""
    if "<" not in text or len(_TAG.findall(text)) < max(2, len(text) / _PER_SIGN):
        return False
    return _PAIR.search(text) is not None or len(_SINGLE.findall(text)) > 1


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._dropped: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _DROPPED:
            self._dropped.append(tag)
        self._end_line(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._dropped:
            del self._dropped[self._dropped.index(tag) :]
        self._end_line(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self._end_line(tag)

    def handle_data(self, data: str) -> None:
        if not self._dropped:
            self.pieces.append(data)

    def _end_line(self, tag: str) -> None:
        name = tag.split(":")[-1]
        if name == "br":
            self.pieces.append("\n")
        elif name not in _INLINE:
            self.pieces.append("\n\n")


def without_tags(text: str) -> str:
    """Return the text of HTML or XML; elements that are no part of a line end a paragraph."""
    parser = _Text()
    parser.feed(re.sub(r"<(?=[\s\d=])", "&lt;", _NO_SECTION.sub(" ", text)))
    parser.close()
    return _paragraphs("".join(parser.pieces).replace("\xa0", " "))


def _paragraphs(text: str) -> str:
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ?\n ?", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


# Markdown, reStructuredText, wiki text.

_SIGNS = tuple(
    re.compile(sign, re.MULTILINE)
    for sign in (
        r"^#{1,6} +\S",
        r"\A\s*#{1,6} +\S",
        r"^(?:`{3,}|~{3,})",
        r"\[[^\]\n]+\]\([^)\s]*[/#.][^)\s]*(?: \"[^\"]*\")?\)",
        r"(?<!\w)(?:\*\*|__)[^\s*_][^*_\n]*(?:\*\*|__)(?!\w)",
        r"^\|?[ \t]*:?-{3,}:?[ \t]*(?:\|[ \t]*:?-{3,}:?[ \t]*)+\|?[ \t]*$",
        r"^(?:={3,}|-{3,}|~{3,})[ \t]*$",
        r"`[^`\n]+`",
        r"^\.\. [\w-]+::",
        r":[a-z]+:`[^`]+`",
        r"\[\[[^\]\n]+\]\]",
        r"'{2,3}[^'\n]+'{2,3}",
        r"^={2,}[^=\n]+={2,}[ \t]*$",
        r"\{\{[^{}]+\}\}",
    )
)
_MAY_BE = re.compile(
    r"[#`]|\]\(|\*\*|__|\[\[|\'\'|\{\{|^\.\. |^(?:===|---|~~~)|-\|-|\|[ :]*---", re.MULTILINE
)
_SURE = frozenset(sign for sign in _SIGNS if sign.pattern[:3] in ("^(?", r"\[[", r"^\.", r"\{\{"))
_RULES = tuple(
    (re.compile(pattern, re.MULTILINE), kept)
    for pattern, kept in (
        (r"^(`{3,}|~{3,})[\s\S]*?^\1", ""),  # code between fences
        (r"::[ \t]*\n(?:[ \t]*\n)+(?:[ \t]+\S.*\n?|[ \t]*\n)+", "\n\n"),  # behind two colons
        (r"(?<=\n\n)(?:(?: {4}|\t).*\n)+", "\n"),  # and indented
        (r"^[ \t]*(?:>>>|\.\.\.|\$|In \[\d+\]:|C:\\).*$", ""),  # commands
        (r"^([ \t]*)\.\. .*(?:\n\1[ \t]+\S.*)*", ""),  # directives and targets
        (r"\[?!\[[^]]*\]\([^)]*\)(?:\]\([^)]*\))?", " "),  # images, and links of them
        (r"\[([^]]+)\]\([^)]*\)", r"\1"),  # links
        (r"\[\[(?:File|Image|Category):[^\]]*\]\]", " "),
        (r"\[\[(?:[^|\]\n]*\|)?([^\]\n]+)\]\]", r"\1"),
        (r"\{\{[^{}]*\}\}|\{\|[\s\S]*?\|\}", " "),
        (r"`([^`<]+?)\s*<[^`>]*>`_{1,2}", r"\1"),
        (r":[\w:+.-]+:`~?([^`]+)`", r"\1"),  # roles
        (r"<!--[\s\S]*?-->|</?[A-Za-z][^>]*>", " "),  # HTML
        (r"``?([\w.-]+)``?", r"\1"),  # single words of code
        (r"``?[^`\n]+``?", " "),  # and other code
        (r"^[ \t]*[+|].*[+|][ \t]*$|\|[^|\n]+\|", ""),  # tables
        (r"^[ \t]*([=\-~^\"'`#*+.:_])\1{2,}[ \t]*$", ""),  # lines below headings
        (r"^={2,}[ \t]*([^=\n]+?)[ \t]*={2,}[ \t]*$", "\n\\1\n"),
        (r"^[ \t]*(#{1,6})[ \t]+(.*)$", r"\n\2\n"),  # headings
        (r"^[ \t]*(?:[-*+•]|\(?\d+[.)]|:[\w -]+:)[ \t]+", "\n"),  # items
        (r"\b(?:https?|ftp|git\+https)://\S+|\bwww\.\S+|\S+@\S+\.\w+", " "),  # addresses
        (r"'{2,5}", ""),
        (r"[`*]+|\b_+|_+\b", ""),  # emphasis
    )
)
"""What is markup and code, and what is kept of it: the one rule after the other."""


def looks_like_markdown(text: str) -> bool:
    """Return whether a text has two signs of Markdown, reStructuredText or a wiki, or a sure one.

    >>> looks_like_markdown("# Title\\n\\nA **word**."), looks_like_markdown("2 * 3 * 4 = 24")
    (True, False)
    """
    if _MAY_BE.search(text) is None:
        return False
    least = len(text) / _PER_SIGN
    kinds = [sign for sign in _SIGNS if len(sign.findall(text)) > least]
    return len(kinds) > 1 or any(sign in _SURE for sign in kinds)


def without_markdown(text: str) -> str:
    """Strip markup, code, images, tables and addresses from Markdown, reStructuredText, a wiki."""
    text = text.replace("\r\n", "\n")
    for pattern, kept in _RULES:
        text = pattern.sub(kept, text)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n[ \t]*\n", html.unescape(text)))
    return "\n\n".join(part for part in paragraphs if any(c.isalpha() for c in part))


# LaTeX.

_COMMAND = re.compile(
    r"\\[A-Za-z]{2,}\*?(?:\[[^\]]*\])?\{[^{}]*\}|\\item\b"
    r"|\$[^$\n]*(?:\\[A-Za-z]+|[_^]\{)[^$\n]*\$|\\[\"'`^~]\{?[A-Za-z]"
)
_ACCENTS = {
    "`": "\u0300",
    "'": "\u0301",
    "^": "\u0302",
    "~": "\u0303",
    '"': "\u0308",
    "=": "\u0304",
    ".": "\u0307",
    "u": "\u0306",
    "v": "\u030c",
    "H": "\u030b",
    "c": "\u0327",
    "k": "\u0328",
    "r": "\u030a",
}
_LETTERS = {"ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "o": "ø", "O": "Ø", "aa": "å", "l": "ł"}
_COMMENT = re.compile(r"(?<!\\)(?<!\d)(?<!\d )%.*$", re.MULTILINE)  # no percentage
_ENVIRONMENT = re.compile(
    r"\\begin(\{(?:equation|align|eqnarray|gather|multline|displaymath|math|figure|table|tabular"
    r"|verbatim|lstlisting|tikzpicture|thebibliography|algorithm)\*?\})"
)
_FORMULA = re.compile(r"(?<!\\)\$\$|\\\[|\\\(")
_CLOSES = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_OF_LATEX = tuple(
    (re.compile(pattern, re.MULTILINE), kept)
    for pattern, kept in (
        (r"(?<!\\)\$(?=\S)[^$\n]{1,400}(?<=\S)\$(?!\d)", " "),  # a formula, no two prices
        (
            r"\\(?:documentclass|usepackage|newcommand|renewcommand|bibliography|bibliographystyle|input"
            r"|include|includegraphics|label|ref|eqref|autoref|cref|pageref|cite\w*|nocite|thanks|vspace"
            r"|hspace|setlength|url)\*?(?:\[[^\]]*\])*(?:\{[^{}]*\}){0,2}",
            " ",
        ),
        (r"\\(?:begin|end)\{[^{}]*\}(?:\[[^\]]*\])?", "\n\n"),
        (
            r"\\(?:part|chapter|(?:sub)*section|paragraph|title|caption)\*?(?:\[[^\]]*\])?\{([^{}]*)\}",
            r"\n\n\1\n\n",
        ),
        (r"\\item(?:\[([^\]]*)\])?", r"\n\n\1 "),
        (r"\\href\{[^{}]*\}", ""),
        (r"\\\\(?:\[[^\]]*\])?|\\(?:newline|par|noindent|newpage|maketitle)\b", "\n"),
        (r"~", " "),
        (r"\\([&%$#_{}])", r"\1"),
        (r"---?", "–"),
        (r"``|''", '"'),
        (r"\\[,;:!> ]", " "),
        (r"\\[A-Za-z]+\*?(?:\[[^\]]*\])?", ""),
        (r"[{}]", ""),
    )
)


def _accent(found: re.Match[str]) -> str:
    return unicodedata.normalize("NFC", found[2] + _ACCENTS[found[1]])


def _without_latex(text: str) -> str:
    """Return the text of LaTeX: formulae go, accents are joined."""
    text = re.sub(r"\\([`'^~\"=.])\s*\{?\\?([A-Za-z])\}?", _accent, text)
    text = re.sub(r"\\([uvHckr])\{([A-Za-z])\}", _accent, text)
    text = re.sub(
        rf"\\({'|'.join(_LETTERS)})(?:\{{\}}|\b ?)", lambda found: _LETTERS[found[1]], text
    )
    text = _COMMENT.sub("", text)
    text = _without_blocks(text, _ENVIRONMENT, lambda found: f"\\end{found[1]}")
    text = _without_blocks(text, _FORMULA, lambda found: _CLOSES[found[0]])
    for pattern, kept in _OF_LATEX:
        text = pattern.sub(kept, text)
    return _paragraphs(text)


def _without_blocks(
    text: str, opening: re.Pattern[str], closing_of: Callable[[re.Match[str]], str]
) -> str:
    """Replace blocks by a space; what nothing closes stays, and is looked for once."""
    pieces, start = [], 0
    unclosed: set[str] = set()
    for found in opening.finditer(text):
        closing = closing_of(found)
        if found.start() < start or closing in unclosed:
            continue
        end = text.find(closing, found.end())
        if end < 0:
            unclosed.add(closing)
            continue
        pieces += [text[start : found.start()], " "]
        start = end + len(closing)
    return "".join([*pieces, text[start:]])


# Text of pages.

_COMPOUND = re.compile(r"(?<!\w)(\w+)-(?=(\w+))")
_HYPHEN_AT_END = re.compile(r"[-\u2010][ \t]*\n")
_BROKEN = re.compile(r"\b(\w{2,})[-\u2010][ \t]*\n[ \t]*(\w+)")
_NUMBERS = re.compile(r"\d+")
_FEWEST_PAGES = 3
_SHORTEST_PAGE = 8  # lines
_LONGEST_HEAD = 120


def _with_whole_words(text: str) -> str:
    """Join words that a line's end cut: with their hyphen where the text has them so elsewhere."""
    if _HYPHEN_AT_END.search(text) is None:
        return text
    compounds = set(_COMPOUND.findall(text))

    def join(found: re.Match[str]) -> str:
        first, rest = found.groups()
        if rest[0].isupper() or rest[0].isdigit() or first[-1].isdigit():
            return f"{first}-{rest}"
        inside = text[max(found.start() - 1, 0) : found.start()] == "-"  # state-of-the-art
        whole = inside or (first, rest) in compounds
        return f"{first}-{rest}" if whole else f"{first}{rest}"

    return _BROKEN.sub(join, text)


def _without_running_heads(text: str) -> str:
    """Remove page numbers and lines that recur with them, or at the edges of most pages."""
    if "\f" not in text and text.count("\n") < (_FEWEST_PAGES - 1) * _SHORTEST_PAGE:
        return text
    lines = text.replace("\f", "\n").split("\n")
    shape = [_NUMBERS.sub("#", line.strip()) for line in lines]
    places: dict[str, list[int]] = {}
    for i, form in enumerate(shape):
        if form and len(form) <= _LONGEST_HEAD:
            places.setdefault(form, []).append(i)
    heads = {
        form
        for form, found in places.items()
        if len(found) >= _FEWEST_PAGES
        and "#" in (form[0], form[-1], form.strip("-–— ")[:1])
        and min(b - a for a, b in pairwise(found)) >= _SHORTEST_PAGE
        and _rises([lines[i] for i in found])
    }
    heads |= _at_edges(text)
    if not heads:
        return text.replace("\f", "\n\n")
    numbered = {i for form in heads for i in places.get(form, [])}
    filled = [i for i, form in enumerate(shape) if form]
    neighbours: Counter[str] = Counter()
    for before, after in pairwise(filled):
        if (before in numbered) != (after in numbered):
            neighbours[shape[after if before in numbered else before]] += 1
    heads |= {
        form
        for form, times in neighbours.items()
        if times >= _FEWEST_PAGES and times == len(places.get(form, []))
    }
    out = {i for form in heads for i in places.get(form, [])}
    kept: list[str] = []
    for i, line in enumerate(lines):
        if i in out:
            while kept and not kept[-1].strip():
                kept.pop()
            continue
        if not line.strip() and i - 1 in out:
            out.add(i)
            continue
        kept.append(line)
    left = "\n".join(kept)
    # Pages that are alike are no heads.
    return left if 2 * len(left) > len(text) else text.replace("\f", "\n\n")


def _at_edges(text: str) -> set[str]:
    """Return the lines that most pages begin or end with; pages are cut by form feeds."""
    pages = [
        [_NUMBERS.sub("#", line.strip()) for line in page.split("\n") if line.strip()]
        for page in text.split("\f")
    ]
    pages = [page for page in pages if page]
    if len(pages) < _FEWEST_PAGES:
        return set()
    edges = Counter(form for page in pages for form in {*page[:2], *page[-2:]})
    least = max(_FEWEST_PAGES, len(pages) // 2)
    return {form for form, n in edges.items() if n >= least and len(form) <= _LONGEST_HEAD}


def _rises(lines: list[str]) -> bool:
    """Return whether some number of lines of one shape rises by one from each to the next."""
    rows = [[int(number[-18:]) for number in _NUMBERS.findall(line)[:4]] for line in lines]
    columns = zip(*rows, strict=False)
    return any(all(0 < b - a <= 2 for a, b in pairwise(column)) for column in columns)
