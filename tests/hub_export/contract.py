"""What callers see of exported modules, as data: names, dtypes and shapes, to compare two exporters by."""

import uuid
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

TEXTS = ["The old clock struck.", "", "Bees, and three stone walls"]
LENGTH = 24  # of the preprocessor
# Sizes of the encoder besides its vocabulary's, as tests/tiny.py has them.
SIZES = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64}
LAYERS, EMBEDDING_SIZE = 3, 16
VOCABULARY_ATTRIBUTES = ("vocab_file", "sp_model_file")


def shapes(outputs):
    """Each tensor of a structure as `int32 [3, None]`; None is a ragged or an unknown size."""
    if isinstance(outputs, Mapping):
        return {name: shapes(value) for name, value in sorted(outputs.items())}
    if isinstance(outputs, list | tuple):
        return [shapes(value) for value in outputs]
    return f"{outputs.dtype.name} {outputs.shape.as_list()}"


def of_preprocessor(module):
    """A preprocessor, its parts and its signature; a batch of eight texts keeps its size in a dataset."""
    tokens = module.tokenize(tf.constant(TEXTS))
    texts = tf.data.Dataset.from_tensor_slices(["a stone"] * 9).batch(8, drop_remainder=True)
    signature = module.signatures["serving_default"]
    _, inputs = signature.structured_input_signature
    [name] = inputs
    found = {
        "call": shapes(module(tf.constant(TEXTS))),
        "call with positions": shapes(module(tf.constant(TEXTS), True, None)),
        "tokens": shapes(tokens),
        "tokens with positions": shapes(module.tokenize(tf.constant(TEXTS), False, None)),
        "special tokens": shapes(module.tokenize.get_special_tokens_dict()),
        "packed": shapes(module.bert_pack_inputs([tokens])),
        "packed pairs": shapes(module.bert_pack_inputs([tokens, tokens], seq_length=9)),
        "in a dataset": shapes(texts.map(module).element_spec),
        "tokens in a dataset": _of_spec(texts.map(module.tokenize).element_spec),
        "packed in a dataset": shapes(
            texts.map(lambda x: module.bert_pack_inputs([module.tokenize(x)], seq_length=9)).element_spec
        ),
        # Keras names inputs and outputs by layers.
        "inputs of the signature": sorted(shapes(inputs).values()),
        "outputs of the signature": sorted(shapes(signature.structured_outputs).values()),
        "one text": sorted(shapes(signature(**{name: tf.constant("a stone")})).values()),
        "a column": sorted(shapes(signature(**{name: tf.constant([["a"], ["b"]])})).values()),
        "saved again": _saved_again(module),
    }
    if hasattr(module, "tokenize_with_offsets"):
        found |= of_offsets(module)
    return found


def of_offsets(module):
    """The part of a preprocessor that gives offsets; published modules of SentencePiece have none."""
    texts = tf.data.Dataset.from_tensor_slices(["a stone"] * 9).batch(8, drop_remainder=True)
    return {
        "offsets": shapes(module.tokenize_with_offsets(tf.constant(TEXTS))),
        "special tokens beside offsets": shapes(module.tokenize_with_offsets.get_special_tokens_dict()),
        "offsets in a dataset": [_of_spec(x) for x in texts.map(module.tokenize_with_offsets).element_spec],
    }


def of_encoder(module):
    """An encoder, its head for masked words, and what it says of its vocabulary."""
    ids = {name: tf.ones([3, 5], tf.int32) for name in ("input_word_ids", "input_mask", "input_type_ids")}
    masked = {**ids, "masked_lm_positions": tf.ones([3, 2], tf.int32)}
    _, inputs = module.signatures["serving_default"].structured_input_signature
    found = {
        "call": shapes(module(ids)),
        "call with positions": shapes(module(ids, True, None)),
        "masked words": shapes(module.mlm(masked)),
        "masked words with positions": shapes(module.mlm(masked, False, None)),
        "inputs of the signature": shapes(inputs),
        "saved again": _saved_again(module),
    }
    for attribute in VOCABULARY_ATTRIBUTES:
        if hasattr(module, attribute):
            path = getattr(module, attribute).asset_path
            found[attribute] = f"{path.dtype.name} {Path(path.numpy().decode()).parent.name}"
    if hasattr(module, "do_lower_case"):
        found["do_lower_case"] = shapes(module.do_lower_case)
    return found


def _of_spec(spec):
    return f"{spec.dtype.name} {spec.shape.as_list()}"


def _saved_again(module):
    """The signatures of a module that was loaded, saved without naming any, and loaded."""
    folder = f"ram://{uuid.uuid4()}"  # an object's id would come again, and with it an older module's files
    tf.saved_model.save(module, folder)
    return sorted(tf.saved_model.load(folder).signatures)
