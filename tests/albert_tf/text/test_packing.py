import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.constants import ENCODER_INPUTS
from albert_tf.errors import InputError
from albert_tf.text.packing import pack, segment_numbers
from albert_tf.text.text_tokenizer import InputFormat, SpecialIds


def by_hand(rows, seq_length):
    """`[CLS] a [SEP] (b [SEP])` one token at a time, the segments taking turns until the budget is spent."""
    packed = {name: [] for name in ENCODER_INPUTS}
    for segments in rows:
        kept = [[] for _ in segments]
        budget = seq_length - 1 - len(segments)
        for position in range(max(map(len, segments))):
            for segment, taken in zip(segments, kept, strict=True):
                if position < len(segment) and sum(map(len, kept)) < budget:
                    taken.append(segment[position])
        ids, types = [2, *kept[0], 3], [0] * (len(kept[0]) + 2)
        for segment in kept[1:]:
            ids, types = [*ids, *segment, 3], [*types, *[1] * (len(segment) + 1)]
        padding = [0] * (seq_length - len(ids))
        for name, values in zip(ENCODER_INPUTS, (ids, [1] * len(ids), types), strict=True):
            packed[name].append(values + padding)
    return packed


def as_lists(packed):
    return {name: tensor.numpy().tolist() for name, tensor in packed.items()}


@pytest.mark.parametrize("seq_length", [3, 4, 8, 20])
def test_by_hand(seq_length):
    lengths = [0, 1, 2, 3, 5, 9, 30]
    rows = [([*range(10, 10 + a)], [*range(50, 50 + b)]) for a in lengths for b in lengths]
    first, second = (tf.ragged.constant(side, tf.int32) for side in zip(*rows, strict=True))
    assert as_lists(pack([first, second], seq_length)) == by_hand(rows, seq_length)
    assert as_lists(pack([first], seq_length)) == by_hand([row[:1] for row in rows], seq_length)


def test_words_of_pieces_and_no_rows():
    words = tf.ragged.constant([[[7, 8], [], [9]], [], [[10]]], tf.int32, ragged_rank=2)
    pieces = tf.ragged.constant([[7, 8, 9], [], [10]], tf.int32)
    assert as_lists(pack([words, pieces], 8)) == as_lists(pack([pieces, pieces], 8))
    assert pack([pieces[:0], pieces[:0]], 8)["input_word_ids"].shape == [0, 8]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
        pack([pieces, pieces[:1]], 8)


def test_in_graph_with_unknown_sizes_and_without_asserts():
    spec = tf.RaggedTensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[spec, spec, tf.TensorSpec([], tf.int32)])
    def packed(a, b, seq_length):
        return pack([a, b], seq_length)

    rows = [([5] * 4, [6] * 9), ([], [])]
    first, second = (tf.ragged.constant(side, tf.int32) for side in zip(*rows, strict=True))
    assert as_lists(packed(first, second, 10)) == by_hand(rows, 10)
    ops = {op.type for op in packed.get_concrete_function().graph.get_operations()}
    assert not {op for op in ops if "Assert" in op or op.startswith("TFText")}


IDS = tf.ragged.constant([[5], [6, 7]], tf.int32)


@pytest.mark.parametrize(
    ("segments", "seq_length", "named"),
    [
        ([IDS] * 3, 8, "segments="),
        (IDS, 8, "segments="),
        ([tf.constant([[5]])], 8, "segments="),
        ([tf.ragged.constant([["a"]])], 8, "segments="),
        ([IDS], 1, "seq_length=1 must be at least 2"),
        ([IDS, IDS], 2, "seq_length=2 must be at least 3"),
        ([IDS], 8.0, r"seq_length=8\.0"),
    ],
)
def test_what_is_not_packed(segments, seq_length, named):
    with pytest.raises(InputError, match=named):
        pack(segments, seq_length)


def test_in_a_model_of_keras(tiny_tokenizer):
    """Symbolic from the texts on."""
    text = keras.Input([], dtype=tf.string)
    model = keras.Model(text, pack([tiny_tokenizer(text)], 8))
    texts = tf.constant(["the sea", "a lamp in the window of the tower"])
    assert as_lists(model(texts)) == by_hand([(row,) for row in tiny_tokenizer(texts).to_list()], 8)


@pytest.mark.parametrize(
    ("input_format", "ids", "type_ids"),
    [
        (
            InputFormat.of_bert(SpecialIds(padding=0, unknown=100, start=101, separator=102, mask=103)),
            [[101, 7, 8, 102, 5, 102, 0, 0], [101, 9, 102, 102, 0, 0, 0, 0]],
            [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0]],
        ),
        (
            InputFormat(start=(0,), between=(2, 2), end=(2,), padding=1, has_type_ids=False),
            [[0, 7, 8, 2, 2, 5, 2, 1], [0, 9, 2, 2, 2, 1, 1, 1]],
            [[0] * 8] * 2,
        ),
    ],
    ids=["bert", "roberta"],
)
def test_inputs_of_other_models(input_format, ids, type_ids):
    segments = [
        tf.ragged.constant([[7, 8], [9]], dtype=tf.int32),
        tf.ragged.constant([[5], []], dtype=tf.int32),
    ]
    packed = pack(segments, 8, input_format)
    assert packed["input_word_ids"].numpy().tolist() == ids
    assert packed["input_type_ids"].numpy().tolist() == type_ids
    expected = (np.array(ids) != input_format.padding).astype(int).tolist()
    assert packed["input_mask"].numpy().tolist() == expected
    numbers = segment_numbers([tf.constant([2, 1]), tf.constant([1, 0])], 8, input_format).numpy()
    assert np.array_equal(numbers > 0, np.isin(ids, [5, 7, 8, 9]))
    assert input_format.num_special_tokens(2) == len(input_format.framing_ids)


def test_a_length_of_numpys():
    tokens = tf.ragged.constant([[5, 6], [7]])
    packed = pack([tokens], tokens.row_lengths().numpy().max() + 2)["input_word_ids"]
    assert packed.dtype == tf.int32 and packed.shape == (2, 4)
