"""Texts nobody would write, and what a preprocessor makes of them according to Python's own tables."""

import random
import unicodedata

# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), which NFKC_Casefold drops.
IGNORABLE = frozenset(
    code
    for first, last in (
        (0xAD, 0xAD),
        (0x34F, 0x34F),
        (0x61C, 0x61C),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x200B, 0x200F),
        (0x202A, 0x202E),
        (0x2060, 0x206F),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFEFF, 0xFEFF),
        (0xFFA0, 0xFFA0),
        (0xFFF0, 0xFFF8),
        (0x1BCA0, 0x1BCA3),
        (0x1D173, 0x1D17A),
        (0xE0000, 0xE0FFF),
    )
    for code in range(first, last + 1)
)

# Where code points are drawn from, in equal shares; the last ones compose, reorder or vanish.
RANGES = (
    (0x20, 0x7E),
    (0x00, 0x1F),
    (0x80, 0x24F),
    (0x250, 0x33FF),
    (0x3400, 0xFFFF),
    (0x10000, 0x10FFFF),
    (0x300, 0x36F),
    (0x1100, 0x11FF),
    (0xAC00, 0xAD00),
    (0x2000, 0x206F),
    (0xFF60, 0xFFFF),
    (0x9BE, 0xDDF),
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
        character = chr(source.randint(*source.choice(RANGES)))
        # Surrogates are no text, and which code points are unassigned differs between Unicode's versions.
        if unicodedata.category(character) not in ("Cs", "Cn"):
            return character.encode()


def normalized(text: bytes) -> bytes:
    """What albert_en_preprocess/3 does before SentencePiece, after its definition in the Unicode standard."""
    without_accents = _on_text(
        text,
        lambda t: "".join(c for c in unicodedata.normalize("NFD", t) if unicodedata.category(c) != "Mn"),
    )
    return _on_text(without_accents, _nfkc_casefold)


def _on_text(data: bytes, function) -> bytes:
    """Applies a function to text that may hold bytes that are not UTF-8, which stay as they are."""
    return function(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _nfkc_casefold(text: str) -> str:
    """NFKC_Casefold: Unicode standard, section 3.13, R5."""
    for _ in range(2):
        text = unicodedata.normalize("NFD", text)
        text = "".join(c for c in text if ord(c) not in IGNORABLE).casefold()
        text = unicodedata.normalize("NFKC", text)
    return text
