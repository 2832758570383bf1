"""RoBERTa's tokenizer inside the graph: byte-level BPE, by core operations of TensorFlow alone."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, shorten
from albert_tf.text.offsets import cut_where, edges, rows_of
from albert_tf.text.text_tokenizer import (
    InputFormat,
    TextTokenizer,
    TokensWithOffsets,
    Vocabulary,
    traced_once,
)
from albert_tf.text.tokenizer_config import BYTE_LEVEL_BPE, lines_of_vocabulary

BPE_VOCABULARY_FILE, BPE_MERGES_FILE = "vocab.json", "merges.txt"
BPE_SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")

_CODE_POINTS = 0x110000
# Unicode's White_Space, which \s matches.
_BLANKS = [*map(ord, "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"), *range(0x2000, 0x200B)]
_LETTER, _NUMBER, _OTHER, _BLANK = range(4)
# What is a word of its own behind an apostrophe.
_CONTRACTIONS = ("s", "t", "m", "d", "re", "ve", "ll")


# Tokens that stand for no text: <s>, <|endoftext|>, [PAD], and what fills RoBERTa's vocabulary up.
_NAME = re.compile(r"<.*>|\[.*\]|madeupword\d+")


def _ids(content: bytes) -> dict[str, int]:
    """The ids of tokens in `vocab.json`; ValueError or TypeError if it holds something else."""
    ids = json.loads(content)
    if wrong := [token for token, number in ids.items() if type(number) is not int]:
        raise TypeError(f"the id of {wrong[0]!r} is {shorten(ids[wrong[0]])}")
    return ids


def byte_characters() -> list[str]:
    """The character that stands for each byte in `vocab.json` and `merges.txt`: itself where it can be seen.

    Source: GPT-2's `bytes_to_unicode`.
    """
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in set(visible) else chr(next(others)) for byte in range(256)]


class BytePairVocabulary(Vocabulary):
    """Tokens and merges of byte-level BPE: ids by token in `vocab.json`, a pair a line in `merges.txt`."""

    kind = BYTE_LEVEL_BPE
    special_pieces = BPE_SPECIAL_TOKENS

    def _read(self) -> list[str]:
        try:
            ids = _ids(self.files[BPE_VOCABULARY_FILE])
            lines = lines_of_vocabulary(self.files[BPE_MERGES_FILE], BPE_MERGES_FILE)
            pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
            joined = [(ids[a], ids[b], ids[a + b]) for a, b in pairs]
            self.byte_ids = np.array([ids[character] for character in byte_characters()], np.int32)  # [256]
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            found = f"{BPE_VOCABULARY_FILE} and {BPE_MERGES_FILE} are not those of one byte-level BPE"
            raise InputError(f"{self.name}: {found} ({type(error).__name__}: {error})") from error
        self.merges = np.array(joined, np.int64).reshape(-1, 3)  # [M, 3], left, right and joined ids
        tokens = sorted(ids, key=ids.__getitem__)
        if [ids[token] for token in tokens] != list(range(len(tokens))):
            wanted = f"0 to {len(tokens) - 1}, each once"
            raise InputError(f"{self.name}: ids in {BPE_VOCABULARY_FILE} are not {wanted}")
        # Of bytes, and of what merges make of them.
        self.ordinary_ids = np.unique(np.concatenate([self.byte_ids, self.merges[:, 2].astype(np.int32)]))
        self._check_whole(tokens)
        space = byte_characters()[ord(" ")]
        self.starts_word = np.array([token.startswith(space) for token in tokens])
        return tokens

    def _check_whole(self, tokens: Sequence[str]) -> None:
        """InputError if tokens that stand for text are made by no merge: the end of the file is missing."""
        others = np.delete(np.array(tokens, object), self.ordinary_ids)
        unmade = [token for token in others if not _NAME.fullmatch(token)]
        if unmade or not len(self.merges):
            which = f"{len(unmade)} tokens, such as {unmade[0]!r}," if unmade else "tokens of several bytes"
            problem = f"{which} are made by no line of {BPE_MERGES_FILE}: copy the whole file there"
            raise InputError(f"{self.name}: {problem}")

    @functools.cached_property
    def input_format(self) -> InputFormat:
        """`<s> a </s></s> b </s>`, without type ids."""
        ids = self.special_ids
        end = (ids.separator,)
        return InputFormat((ids.start,), end + end, end, ids.padding, has_type_ids=False)

    @functools.cached_property
    def token_bytes(self) -> np.ndarray:
        """The bytes that each token stands for, [V]; those of its own name where it stands for none."""
        byte_of = {character: byte for byte, character in enumerate(byte_characters())}
        is_name = [token in BPE_SPECIAL_TOKENS or not byte_of.keys() >= set(token) for token in self.pieces]
        found = [
            token.encode() if named else bytes(map(byte_of.__getitem__, token))
            for token, named in zip(self.pieces, is_name, strict=True)
        ]
        return np.array(found, object)

    @functools.cached_property
    def texts(self) -> np.ndarray:
        """The text of each token without the space before it, string [V]; parts of characters are U+FFFD."""
        texts = (content.decode("utf-8", "replace").strip(" ") for content in self.token_bytes)
        return np.array([text or token for text, token in zip(texts, self.pieces, strict=True)], object)


class BytePairTokenizer(TextTokenizer):
    """Tokenizer of GPT-2 and RoBERTa: byte-level BPE, exactly; texts may be any bytes."""

    kind = BYTE_LEVEL_BPE
    vocabulary_class = BytePairVocabulary
    vocabulary: BytePairVocabulary
    add_prefix_space: bool

    def __init__(self, vocabulary: BytePairVocabulary, **settings: bool):
        super().__init__(vocabulary, **settings)
        left, right, joined = vocabulary.merges.T
        keys = left * len(vocabulary) + right
        order = np.argsort(keys)
        self._keys = keys[order]  # int64 [M], ascending
        self._ranks = order.astype(np.int32)  # of the merge with each key
        self._joined = joined.astype(np.int32)  # by rank
        self.bytes_per_token = max(map(len, vocabulary.pieces))  # a character is a byte

    @traced_once
    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """As of `TextTokenizer`."""
        words = cut_where(self._normalized(text), opens_word)
        distinct, numbers = tf.unique(words.text)
        pieces = tf.gather(self._merged(distinct), numbers)  # [W, (tokens)]
        counts = tf.math.unsorted_segment_sum(pieces.row_lengths(), words.rows, tf.size(text))
        return tf.RaggedTensor.from_row_lengths(pieces.flat_values, counts, validate=False)

    @traced_once
    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """As of `TextTokenizer`."""
        tokens = self(text)
        sizes = np.array([len(token) for token in self.vocabulary.pieces], np.int64)  # a character is a byte
        lengths, rows = tf.gather(sizes, tokens.values), rows_of(tokens.row_splits)
        starts = tf.cumsum(lengths, exclusive=True)  # in all texts joined
        firsts = tf.gather(tokens.row_splits, rows)  # the first token of each one's text
        added = tf.strings.length(self._normalized(text)) - tf.strings.length(text)  # [B]
        starts -= tf.gather(starts, firsts) + tf.gather(tf.cast(added, tf.int64), rows)
        return tokens, tokens.with_values(tf.maximum(starts, 0)), tokens.with_values(starts + lengths)

    def _normalized(self, text: tf.Tensor) -> tf.Tensor:
        if not self.add_prefix_space:
            return text
        first = tf.strings.substr(text, 0, 1)
        return tf.where((first == "") | (first == " "), text, tf.strings.join([" ", text]))

    def detokenize(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """As of `TextTokenizer`: the very bytes that were tokenised."""
        return tf.strings.reduce_join(tf.gather(self.vocabulary.token_bytes, tokens), axis=1)

    def _merged(self, words: tf.Tensor) -> tf.RaggedTensor:
        """The tokens of words, string [U] to int32 [U, (tokens)].

        The pair of tokens with the lowest rank is joined, as long as there is one.
        """
        count = tf.size(words)
        values = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)  # [N]
        lengths = tf.strings.length(words)
        ids = tf.gather(self.vocabulary.byte_ids, tf.cast(values, tf.int32))  # [N]
        rows = tf.repeat(tf.range(count), lengths)  # [N]
        never = len(self._ranks)

        def ranks_of(ids: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
            """The rank of the merge of each token with the next one, `never` where there is none."""
            keys = tf.cast(ids[:-1], tf.int64) * len(self.vocabulary) + tf.cast(ids[1:], tf.int64)
            places = tf.minimum(tf.searchsorted(self._keys, keys), never - 1)
            known = tf.equal(tf.gather(self._keys, places), keys) & tf.equal(rows[:-1], rows[1:])
            return tf.concat([tf.where(known, tf.gather(self._ranks, places), never), [never]], axis=0)

        def join(ids: tf.Tensor, rows: tf.Tensor, ranks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            best = tf.gather(tf.math.unsorted_segment_min(ranks, rows, count), rows)
            joins = tf.equal(ranks, best) & (ranks < never)
            # Of a row of pairs that overlap ("aaa" by "a a") every second one is joined.
            places = tf.range(tf.size(ids))
            last_other = _running_max(tf.where(joins, -1, places))
            joins &= (places - last_other) % 2 == 1
            ids = tf.where(joins, tf.gather(self._joined, tf.minimum(ranks, never - 1)), ids)
            stays = tf.concat([[True], ~joins[:-1]], axis=0)[: tf.size(ids)]
            ids, rows = tf.boolean_mask(ids, stays), tf.boolean_mask(rows, stays)
            return ids, rows, ranks_of(ids, rows)

        ids, rows, _ = tf.while_loop(
            lambda ids, rows, ranks: tf.reduce_min(ranks) < never,
            join,
            (ids, rows, ranks_of(ids, rows)),
            shape_invariants=(tf.TensorShape([None]),) * 3,
        )
        counts = tf.math.bincount(rows, minlength=count, dtype=tf.int64)
        return tf.RaggedTensor.from_row_lengths(ids, counts, validate=False)


def _running_max(values: tf.Tensor) -> tf.Tensor:
    """The largest of the values so far, of numbers that are -1 or their own places: int32 [N]."""
    places = tf.boolean_mask(values, values >= 0)
    return tf.gather(tf.concat([[-1], places], axis=0), tf.cumsum(tf.cast(values >= 0, tf.int32)))


@functools.cache
def character_classes() -> tuple[np.ndarray, np.ndarray]:
    """Runs of code points of one class: the first of each, and its class, int32 [R] both."""
    kinds = {"L": _LETTER, "N": _NUMBER}
    categories = (unicodedata.category(chr(code)) for code in range(_CODE_POINTS))
    classes = np.array([kinds.get(category[0], _OTHER) for category in categories])
    classes[_BLANKS] = _BLANK
    firsts = np.flatnonzero(np.diff(classes, prepend=-1))
    return firsts.astype(np.int32), classes[firsts].astype(np.int32)


def opens_word(codes: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    r"""True for the characters, int32 [C], that GPT-2's words begin with; rows are their texts, int32 [C].

    Words are letters, digits or others, with the one space before them: the matches of
    `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
    TensorFlow's regular expressions cannot look ahead: so the characters that words begin with are found by
    what is around them.
    """
    firsts, kinds = character_classes()
    classes = tf.gather(kinds, tf.searchsorted(firsts, codes, side="right") - 1)  # [C]
    is_first, is_last = edges(rows)
    changes = is_first | tf.not_equal(classes, tf.roll(classes, 1, axis=0))
    is_blank = tf.equal(classes, _BLANK)
    # Of several blanks the last one leaves the others if something follows; a space goes with what follows.
    before_word = ~is_last & ~tf.roll(is_blank, -1, axis=0)
    after_space = ~is_first & tf.roll(tf.equal(codes, ord(" ")), 1, axis=0)
    opens = tf.where(is_blank, changes | before_word, changes & ~after_space)

    # An apostrophe that begins a word takes some letters with it, and the next word begins after them.
    apostrophes = tf.where(opens & tf.equal(codes, ord("'")))[:, 0]  # [A]
    following = tf.gather(tf.pad(codes, [[0, 2]]), apostrophes[:, tf.newaxis] + [1, 2])  # [A, 2]
    ends = tf.gather(tf.pad(rows, [[0, 2]], constant_values=-1), apostrophes[:, tf.newaxis] + [1, 2])
    following = tf.where(tf.equal(ends, tf.gather(rows, apostrophes)[:, tf.newaxis]), following, -1)
    lengths = tf.zeros_like(apostrophes)
    for ending in _CONTRACTIONS:
        matches = tf.reduce_all(following[:, : len(ending)] == list(map(ord, ending)), axis=1)
        lengths = tf.where(matches, tf.constant(len(ending), tf.int64), lengths)
    places = tf.boolean_mask(apostrophes, lengths > 0)[:, tf.newaxis] + 1  # [K, 1]
    after = places + tf.boolean_mask(lengths, lengths > 0)[:, tf.newaxis]
    opens = tf.tensor_scatter_nd_update(tf.pad(opens, [[0, 1]]), places, tf.zeros_like(places[:, 0], tf.bool))
    return tf.tensor_scatter_nd_update(opens, after, tf.ones_like(after[:, 0], tf.bool))[:-1]
