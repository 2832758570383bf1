"""Text that is not UTF-8: how much of it, where it begins, and the command that converts it."""

from __future__ import annotations

import codecs
import os
import re
import shlex

# Some bytes that are not UTF-8 are found in every large corpus and do no harm. Text in another encoding has
# more: of French in Latin-1 each thirtieth byte, of German each sixtieth.
TRACE = 0.001
_OF_A_CUT = 3  # bytes, what is left of a character at the end of a file

GZIP_SUFFIX = ".gz"
_WESTERN = 0.2  # of the bytes: letters outside of ASCII are rarer in languages written in Latin letters
_ESCAPED = re.compile("[\udc80-\udcff]")
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_LEAST_NULS = 8
_SHARE_OF_NULS = 0.08  # of every other byte: a seventh of a Russian text is spaces


class Utf8Census:
    """Counts what is not UTF-8 in a text that comes in parts, whatever place they are cut at."""

    def __init__(self) -> None:
        self._bytes = self._lines = self._invalid = self._valid = 0
        self._first_line: int | None = None
        self._rest = b""  # the beginning of a character

    def add(self, part: bytes) -> None:
        """Counts the next part."""
        text = self._rest + part
        invalid = 0
        try:
            decoded, used = codecs.utf_8_decode(text, "strict", False)
        except UnicodeDecodeError as error:
            if self._first_line is None:
                self._first_line = self._lines + text.count(b"\n", 0, error.start) + 1
            decoded, used = codecs.utf_8_decode(text, "surrogateescape", False)
            invalid = len(_ESCAPED.findall(decoded))
        if not decoded.isascii():
            self._valid += len(decoded) - len(decoded.encode("ascii", "ignore")) - invalid
        self._invalid += invalid
        self._bytes += len(part)
        self._lines += part.count(b"\n")
        self._rest = text[used:]

    @property
    def is_above_trace(self) -> bool:
        """Whether there is more that is not UTF-8 than does no harm."""
        return self._invalid + len(self._rest) > max(_OF_A_CUT, TRACE * self._bytes)

    def complaint(self, file: str, lines_before: int = 0) -> str:
        """What to tell the user of a text that is above the trace.

        Args:
          file: its name.
          lines_before: lines of the file before the text.
        """
        share = self._invalid / self._bytes
        line = lines_before + (self._first_line or 1)
        if self._valid > self._invalid:  # another encoding's command would spoil the rest
            command, what = conversion(file, "UTF-8", "-c "), "which leaves these bytes out"
        elif share < _WESTERN:
            command, what = conversion(file, "WINDOWS-1252"), "the usual one of Western languages"
        else:
            command = conversion(file, "ENCODING")
            what = "WINDOWS-1251, KOI8-R, SHIFT_JIS, GB18030 or what it is in"
        return (
            f"{file} is not text in UTF-8: {share:.1%} of its bytes are not, the first of them in line "
            f"{line}: convert it (`{command}`, {what}), or leave it out"
        )


def conversion(file: str, encoding: str, flags: str = "") -> str:
    """The command that converts a file to UTF-8, under another name.

    >>> conversion("fr.txt", "WINDOWS-1252")
    'iconv -f WINDOWS-1252 -t UTF-8 fr.txt > fr.utf8.txt'
    >>> conversion("old fr.gz", "WINDOWS-1252")
    "gunzip -c 'old fr.gz' | iconv -f WINDOWS-1252 -t UTF-8 | gzip > 'old fr.utf8.gz'"
    """
    name = file.removesuffix(GZIP_SUFFIX)
    stem, suffix = os.path.splitext(name)  # noqa: PTH122, of any filesystem
    there, new = shlex.quote(file), shlex.quote(f"{stem}.utf8{suffix}{file[len(name) :]}")
    iconv = f"iconv {flags}-f {encoding} -t UTF-8"
    return f"{iconv} {there} > {new}" if name == file else f"gunzip -c {there} | {iconv} | gzip > {new}"


def other_encoding(head: bytes) -> str | None:
    """The encoding, not UTF-8, that the beginning of a text shows; None where it shows none.

    A byte order mark names it. UTF-16 without one is told by its spaces, line feeds and, in Western
    languages, letters: one of the two bytes of each is NUL, always the same.
    """
    for mark, name in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return name
    nuls = {name: head[place::2].count(0) for name, place in (("UTF-16BE", 0), ("UTF-16LE", 1))}
    rarer, likelier = sorted(nuls, key=nuls.__getitem__)
    least = max(_LEAST_NULS, _SHARE_OF_NULS * len(head) / 2)
    return likelier if nuls[likelier] >= least and nuls[rarer] <= nuls[likelier] / 4 else None
