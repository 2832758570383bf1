"""Splitting running text into sentences by a few rules."""

from __future__ import annotations

import re

# What ends with a full stop and goes on, in small letters; single letters (initials) do so as well.
_ABBREVIATIONS = """
mr mrs ms dr prof rev hon st jr sr gen col capt lt sgt gov sen rep pres messrs mt ft no nos vol vols
fig figs ed eds pp art sec ch cf al ca approx dept univ inc ltd corp co bros vs etc e.g i.e viz jan
feb mar apr jun jul aug sep sept oct nov dec u.s u.k
"""
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())
# These do end sentences when a capital follows.
_MAY_END = frozenset(["etc", "inc", "ltd", "corp", "co", "jr", "sr", "al"])

_CLOSING = "\"'”’»)\\]"
_OPENING = "\"'“‘«(\\["
# The end of a sentence and the space after it, or a full stop of a script that writes no spaces.
_END = re.compile(rf"(?<=[.!?…])[{_CLOSING}]*\s+|(?<=[。！？])[”’」』）]*\s*|\s*[\r\n]\s*")
_LAST_WORD = re.compile(r"(\S+)\.$")
_GOES_ON = re.compile(rf"[{_OPENING}]*[^\W\d_]")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the whitespace around them.

    A sentence ends at a line's end, LF or CR, and at . ! ? … with closing quotes and brackets, where what
    follows does not begin with a small letter; not after an abbreviation, initial or the like.

    >>> split_sentences('Mr. Smith left at 5 p.m. on Monday. "Why?" asked J. Doe. 他走了。真的！')
    ['Mr. Smith left at 5 p.m. on Monday.', '"Why?" asked J. Doe.', '他走了。', '真的！']
    """
    sentences, begin = [], 0
    for end in _END.finditer(text):
        if _ends(text, begin, end):
            sentences.append(text[begin : end.end()].strip())
            begin = end.end()
    sentences.append(text[begin:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends(text: str, begin: int, end: re.Match[str]) -> bool:
    """True if a possible end of the sentence from `begin` is one."""
    if "\n" in end[0] or "\r" in end[0] or end.end() == len(text) or text[end.start() - 1] in "。！？":
        return True
    following = _GOES_ON.match(text, end.end())
    if following and following[0][-1].islower():
        return False
    if text[end.start() - 1] != "." or end[0][0] in "\"'”’»":
        return True
    last_word = _LAST_WORD.search(text, max(begin, end.start() - 40), end.start())
    word = last_word[1].lstrip("\"'“‘«([").lower() if last_word else ""
    if len(word) == 1 and word.isalpha() and word != "i":
        return False
    return word not in ABBREVIATIONS or (word in _MAY_END and following is not None)
