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
from albert_tf.text.offsets import cut_where, row_edges, rows_of
from albert_tf.text.text_tokenizer import (
    InputFormat,
    TextTokenizer,
    TokensWithOffsets,
    Vocabulary,
    trace_once,
)
from albert_tf.text.tokenizer_config import BYTE_LEVEL_BPE, VOCABULARY_FILES, split_vocabulary_lines

BPE_VOCABULARY_FILE, BPE_MERGES_FILE = VOCABULARY_FILES[BYTE_LEVEL_BPE]
BPE_SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")

_CODE_POINTS = 0x110000
# Unicode's White_Space, which \s matches.
_BLANKS = [*map(ord, "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"), *range(0x2000, 0x200B)]
_LETTER, _NUMBER, _OTHER, _BLANK = range(4)
# Letters that form a word with the apostrophe before them.
_CONTRACTIONS = ("s", "t", "m", "d", "re", "ve", "ll")


# Tokens that stand for no text: <s>, <|endoftext|>, [PAD], and the filling of RoBERTa's vocabulary.
_NAME = re.compile(r"<.*>|\[.*\]|madeupword\d+")


def _parse_ids(content: bytes) -> dict[str, int]:
    """The ids of tokens in `vocab.json`; ValueError or TypeError if it holds something else."""
    ids = json.loads(content)
    if wrong := [token for token, number in ids.items() if type(number) is not int]:
        raise TypeError(f"the id of {wrong[0]!r} is {shorten(ids[wrong[0]])}")
    return ids


def byte_characters() -> list[str]:
    """The character that stands for each byte in `vocab.json` and `merges.txt`.

    A byte that is a visible character stands for itself. Source: GPT-2's `bytes_to_unicode`.
    """
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in set(visible) else chr(next(others)) for byte in range(256)]


class BytePairVocabulary(Vocabulary):
    """Byte-level BPE: `vocab.json` has the id of each token, `merges.txt` one pair of tokens per line."""

    kind = BYTE_LEVEL_BPE
    special_pieces = BPE_SPECIAL_TOKENS

    def _read(self) -> list[str]:
        try:
            ids = _parse_ids(self.files[BPE_VOCABULARY_FILE])
            lines = split_vocabulary_lines(self.files[BPE_MERGES_FILE], BPE_MERGES_FILE)
            pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
            merges = [(ids[a], ids[b], ids[a + b]) for a, b in pairs]
            self.byte_ids = np.array([ids[character] for character in byte_characters()], np.int32)  # [256]
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            problem = f"{BPE_VOCABULARY_FILE} and {BPE_MERGES_FILE} are not those of one byte-level BPE"
            raise InputError(f"{self.name}: {problem} ({type(error).__name__}: {error})") from error
        self.merges = np.array(merges, np.int64).reshape(-1, 3)  # [M, 3], left, right and merged ids
        tokens = sorted(ids, key=ids.__getitem__)
        if [ids[token] for token in tokens] != list(range(len(tokens))):
            expected = f"0 to {len(tokens) - 1}, each once"
            raise InputError(f"{self.name}: ids in {BPE_VOCABULARY_FILE} are not {expected}")
        self.ordinary_ids = np.unique(np.concatenate([self.byte_ids, self.merges[:, 2].astype(np.int32)]))
        self._check_whole(tokens)
        space = byte_characters()[ord(" ")]
        self.starts_word = np.array([token.startswith(space) for token in tokens])
        return tokens

    def _check_whole(self, tokens: Sequence[str]) -> None:
        """Raises InputError if no merge makes a token of text: then the end of `merges.txt` is missing."""
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
        """The bytes that each token stands for, [V]; a token that stands for no text has its own name."""
        byte_of = {character: byte for byte, character in enumerate(byte_characters())}
        is_name = [token in BPE_SPECIAL_TOKENS or not byte_of.keys() >= set(token) for token in self.pieces]
        contents = [
            token.encode() if named else bytes(map(byte_of.__getitem__, token))
            for token, named in zip(self.pieces, is_name, strict=True)
        ]
        return np.array(contents, object)

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
        left, right, merged = vocabulary.merges.T
        keys = left * len(vocabulary) + right
        order = np.argsort(keys)
        self._keys = keys[order]  # int64 [M], ascending
        self._ranks = order.astype(np.int32)  # of the merge with each key
        self._merged_ids = merged.astype(np.int32)  # by rank
        self.bytes_per_token = max(map(len, vocabulary.pieces))  # a character is a byte

    @trace_once
    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `TextTokenizer`."""
        words = cut_where(self._normalize(text), opens_word)
        distinct, numbers = tf.unique(words.text)
        pieces = tf.gather(self._merge_pairs(distinct), numbers)  # [W, (tokens)]
        counts = tf.math.unsorted_segment_sum(pieces.row_lengths(), words.rows, tf.size(text))
        return tf.RaggedTensor.from_row_lengths(pieces.flat_values, counts, validate=False)

    @trace_once
    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """See `TextTokenizer`."""
        tokens = self(text)
        sizes = np.array([len(token) for token in self.vocabulary.pieces], np.int64)  # a character is a byte
        lengths, rows = tf.gather(sizes, tokens.values), rows_of(tokens.row_splits)
        starts = tf.cumsum(lengths, exclusive=True)  # in all texts joined
        firsts = tf.gather(tokens.row_splits, rows)  # the first token of each token's text
        added = tf.strings.length(self._normalize(text)) - tf.strings.length(text)  # [B]
        starts -= tf.gather(starts, firsts) + tf.gather(tf.cast(added, tf.int64), rows)
        return tokens, tokens.with_values(tf.maximum(starts, 0)), tokens.with_values(starts + lengths)

    def _normalize(self, text: tf.Tensor) -> tf.Tensor:
        return self.prepend_space(text) if self.add_prefix_space else text

    def prepend_space(self, words: tf.Tensor) -> tf.Tensor:
        """See `TextTokenizer`. The space belongs to the first token of a word."""
        first = tf.strings.substr(words, 0, 1)
        return tf.where((first == "") | (first == " "), words, tf.strings.join([" ", words]))

    def detokenize(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """See `TextTokenizer`. The result has exactly the bytes that were tokenised."""
        return tf.strings.reduce_join(tf.gather(self.vocabulary.token_bytes, tokens), axis=1)

    def _merge_pairs(self, words: tf.Tensor) -> tf.RaggedTensor:
        """The tokens of words, string [U] to int32 [U, (tokens)].

        Each step merges the pair of tokens with the lowest rank in each word, until no pair has a merge.
        """
        count = tf.size(words)
        values = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)  # [N]
        lengths = tf.strings.length(words)
        ids = tf.gather(self.vocabulary.byte_ids, tf.cast(values, tf.int32))  # [N]
        rows = tf.repeat(tf.range(count), lengths)  # [N]
        no_merge = len(self._ranks)

        def find_ranks(ids: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
            """The rank of the merge of each token with the next one; `no_merge` if there is none."""
            keys = tf.cast(ids[:-1], tf.int64) * len(self.vocabulary) + tf.cast(ids[1:], tf.int64)
            places = tf.minimum(tf.searchsorted(self._keys, keys), no_merge - 1)
            has_merge = tf.equal(tf.gather(self._keys, places), keys) & tf.equal(rows[:-1], rows[1:])
            ranks = tf.where(has_merge, tf.gather(self._ranks, places), no_merge)
            return tf.concat([ranks, [no_merge]], axis=0)

        def merge(ids: tf.Tensor, rows: tf.Tensor, ranks: tf.Tensor) -> tuple[tf.Tensor, ...]:
            best = tf.gather(tf.math.unsorted_segment_min(ranks, rows, count), rows)
            merges = tf.equal(ranks, best) & (ranks < no_merge)
            # Where pairs overlap ("aaa" by "a a"), every second one is merged.
            places = tf.range(tf.size(ids))
            last_other = _running_max(tf.where(merges, -1, places))
            merges &= (places - last_other) % 2 == 1
            ids = tf.where(merges, tf.gather(self._merged_ids, tf.minimum(ranks, no_merge - 1)), ids)
            stays = tf.concat([[True], ~merges[:-1]], axis=0)[: tf.size(ids)]
            ids, rows = tf.boolean_mask(ids, stays), tf.boolean_mask(rows, stays)
            return ids, rows, find_ranks(ids, rows)

        ids, rows, _ = tf.while_loop(
            lambda ids, rows, ranks: tf.reduce_min(ranks) < no_merge,
            merge,
            (ids, rows, find_ranks(ids, rows)),
            shape_invariants=(tf.TensorShape([None]),) * 3,
        )
        counts = tf.math.bincount(rows, minlength=count, dtype=tf.int64)
        return tf.RaggedTensor.from_row_lengths(ids, counts, validate=False)


def _running_max(values: tf.Tensor) -> tf.Tensor:
    """The largest value up to each position, int32 [N]; each value is -1 or its own position."""
    places = tf.boolean_mask(values, values >= 0)
    return tf.gather(tf.concat([[-1], places], axis=0), tf.cumsum(tf.cast(values >= 0, tf.int32)))


@functools.cache
def character_classes() -> tuple[np.ndarray, np.ndarray]:
    """Runs of code points of one class: the first code point and the class of each run, int32 [R] both."""
    kinds = {"L": _LETTER, "N": _NUMBER}
    categories = (unicodedata.category(chr(code)) for code in range(_CODE_POINTS))
    classes = np.array([kinds.get(category[0], _OTHER) for category in categories])
    classes[_BLANKS] = _BLANK
    firsts = np.flatnonzero(np.diff(classes, prepend=-1))
    return firsts.astype(np.int32), classes[firsts].astype(np.int32)


def opens_word(codes: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    r"""True for characters that begin one of GPT-2's words, bool [C].

    `codes` are the code points of the characters and `rows` the texts they belong to, int32 [C] both.

    Words are letters, digits or others, with the one space before them: the matches of
    `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
    TensorFlow's regular expressions cannot look ahead, so this function compares neighbouring characters.
    """
    firsts, kinds = character_classes()
    classes = tf.gather(kinds, tf.searchsorted(firsts, codes, side="right") - 1)  # [C]
    is_first, is_last = row_edges(rows)
    changes = is_first | tf.not_equal(classes, tf.roll(classes, 1, axis=0))
    is_blank = tf.equal(classes, _BLANK)
    # The last of several blanks begins a word if a word follows; a space belongs to the word after it.
    before_word = ~is_last & ~tf.roll(is_blank, -1, axis=0)
    after_space = ~is_first & tf.roll(tf.equal(codes, ord(" ")), 1, axis=0)
    opens = tf.where(is_blank, changes | before_word, changes & ~after_space)

    # An apostrophe that begins a word may form a contraction with its letters; the next word follows them.
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
