"""Texts nobody would write, and what a preprocessor makes of them according to Python's own tables."""

import random
import unicodedata


def _ranges(text: str) -> list[range]:
    """Ranges of code points as Unicode's own files write them."""
    ends = (part.partition("..") for part in text.split())
    return [range(int(first, 16), int(last or first, 16) + 1) for first, _, last in ends]


# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), which NFKC_Casefold drops.
IGNORABLE = frozenset().union(
    *_ranges(
        "AD 34F 61C 115F..1160 17B4..17B5 180B..180F 200B..200F 202A..202E 2060..206F 3164 FE00..FE0F FEFF "
        "FFA0 FFF0..FFF8 1BCA0..1BCA3 1D173..1D17A E0000..E0FFF"
    )
)

# Where code points are drawn from, in equal shares; the last ones compose, reorder or vanish.
RANGES = _ranges(
    "20..7E 00..1F 80..24F 250..33FF 3400..FFFF 10000..10FFFF 300..36F 1100..11FF AC00..AD00 2000..206F "
    "FF60..FFFF 9BE..DDF"
)


def fuzzed_texts(count: int, seed: int = 0, longest: int = 100_000) -> list[bytes]:
    """Texts of any assigned Unicode, a tenth with bytes that are not UTF-8; four very long, one empty."""
    source = random.Random(seed)
    texts = [b""]
    while len(texts) < count:
        size = longest if len(texts) % (count // 4) == 0 else int(60 * source.random() ** 2)
        parts = [_character(source) for _ in range(min(size, 200))]
        if source.random() < 0.1:
            parts = [part if source.random() < 0.7 else source.randbytes(1) for part in parts]
        text = b"".join(parts)
        texts.append((text * (1 + size // len(text)))[:size] if size == longest else text)
    return texts


def _character(source: random.Random) -> bytes:
    while True:
        character = chr(source.choice(source.choice(RANGES)))
        # Surrogates are no text, and which code points are unassigned differs between Unicode's versions.
        if unicodedata.category(character) not in ("Cs", "Cn"):
            return character.encode()


def normalized(text: bytes) -> bytes:
    """What albert_en_preprocess/3 does before SentencePiece, after its definition in the Unicode standard."""
    without_accents = _on_text(
        text, lambda t: "".join(c for c in unicodedata.normalize("NFD", t) if unicodedata.category(c) != "Mn")
    )
    return _on_text(without_accents, nfkc_casefold)


def _on_text(data: bytes, function) -> bytes:
    """Applies a function to text that may hold bytes that are not UTF-8, which stay as they are."""
    return function(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def nfkc_casefold(text: str) -> str:
    """NFKC_Casefold: Unicode standard, section 3.13, R5."""
    for _ in range(2):
        text = unicodedata.normalize("NFD", text)
        text = "".join(c for c in text if ord(c) not in IGNORABLE).casefold()
        text = unicodedata.normalize("NFKC", text)
    return text
