"""Names and shapes of a model's variables, here and in the formats of others: the table of all conversions.

Google's names are ours in the scope `bert/`, except for the heads. TF Hub's TF 1 modules have Google's names,
its TF 2 encoders, of ALBERT and BERT, those of TensorFlow Model Garden, and no heads. The other names of
BERT, RoBERTa and DistilBERT are in `family_names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.checkpoints.family_names import google_bert_name, hugging_face_name
from albert_tf.checkpoints.models import MODELS
from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import BlockPath, sharing_plan

# Scopes of the encoder's names, not of the heads'.
GOOGLE_SCOPE, HUGGING_FACE_SCOPE = "bert/", "albert."


class _Row(NamedTuple):
    """A variable of the tables; shapes in letters: V E S T H I N D, K labels, X exits."""

    ours: str
    hugging_face: str
    shape: str
    hub: str = ""
    hub_shape: str = ""  # the same elements in the same order; "": the same shape
    google: str = ""  # "": as here


def _rows(table: str) -> list[_Row]:
    return [_Row(*line.split()) for line in table.strip().splitlines()]


_EMBEDDINGS = _rows("""
embeddings/word_embeddings       embeddings.word_embeddings.weight       V,E word_embeddings/embeddings
embeddings/token_type_embeddings embeddings.token_type_embeddings.weight T,E type_embeddings/embeddings
embeddings/position_embeddings   embeddings.position_embeddings.weight   S,E position_embedding/embeddings
embeddings/LayerNorm/gamma       embeddings.LayerNorm.weight             E   embeddings/layer_norm/gamma
embeddings/LayerNorm/beta        embeddings.LayerNorm.bias               E   embeddings/layer_norm/beta
""")
_PROJECTION = _rows("""
encoder/embedding_hidden_mapping_in/kernel encoder.embedding_hidden_mapping_in.weight E,H embedding_projection/kernel
encoder/embedding_hidden_mapping_in/bias   encoder.embedding_hidden_mapping_in.bias   H   embedding_projection/bias
""")  # noqa: E501
_POOLER = _rows("""
pooler/dense/kernel pooler.weight H,H pooler_transform/kernel
pooler/dense/bias   pooler.bias   H   pooler_transform/bias
""")

# Of a block of any group, in whose scope the names are.
_ATTENTION = _rows("""
attention_1/self/query/kernel   attention.query.weight     H,H self_attention/query/kernel            H,N,D
attention_1/self/query/bias     attention.query.bias       H   self_attention/query/bias              N,D
attention_1/self/key/kernel     attention.key.weight       H,H self_attention/key/kernel              H,N,D
attention_1/self/key/bias       attention.key.bias         H   self_attention/key/bias                N,D
attention_1/self/value/kernel   attention.value.weight     H,H self_attention/value/kernel            H,N,D
attention_1/self/value/bias     attention.value.bias       H   self_attention/value/bias              N,D
attention_1/output/dense/kernel attention.dense.weight     H,H self_attention/attention_output/kernel N,D,H
attention_1/output/dense/bias   attention.dense.bias       H   self_attention/attention_output/bias
LayerNorm/gamma                 attention.LayerNorm.weight H   self_attention_layer_norm/gamma
LayerNorm/beta                  attention.LayerNorm.bias   H   self_attention_layer_norm/beta
""")
_FEED_FORWARD = _rows("""
ffn_1/intermediate/dense/kernel        ffn.weight                   H,I intermediate/kernel
ffn_1/intermediate/dense/bias          ffn.bias                     I   intermediate/bias
ffn_1/intermediate/output/dense/kernel ffn_output.weight            I,H output/kernel
ffn_1/intermediate/output/dense/bias   ffn_output.bias              H   output/bias
LayerNorm_1/gamma                      full_layer_layer_norm.weight H   output_layer_norm/gamma
LayerNorm_1/beta                       full_layer_layer_norm.bias   H   output_layer_norm/beta
""")

_HEADS = {
    "mlm": _rows("""
cls/predictions/transform/dense/kernel    predictions.dense.weight     H,E
cls/predictions/transform/dense/bias      predictions.dense.bias       E
cls/predictions/transform/LayerNorm/gamma predictions.LayerNorm.weight E
cls/predictions/transform/LayerNorm/beta  predictions.LayerNorm.bias   E
cls/predictions/output_bias               predictions.bias             V
"""),
    "sentence": _rows("""
cls/seq_relationship/output_weights sop_classifier.classifier.weight 2,H
cls/seq_relationship/output_bias    sop_classifier.classifier.bias   2
"""),
    # run_classifier and run_race of google-research/albert give their heads no scope. That of token
    # classifiers is ours, and tells them from those.
    "classifier": [
        _Row("classifier/output_weights", "classifier.weight", "K,H", google="output_weights"),
        _Row("classifier/output_bias", "classifier.bias", "K", google="output_bias"),
    ],
    # Of all layers but the last; no other format has them.
    "exits": _rows("""
exits/output_weights exits.weight X,K,H
exits/output_bias    exits.bias   X,K
"""),
    "token_classifier": _rows("""
classifier/output_weights classifier.weight K,H
classifier/output_bias    classifier.bias   K
"""),
    "span": _rows("""
cls/squad/output_weights qa_outputs.weight 2,H
cls/squad/output_bias    qa_outputs.bias   2
"""),
    # run_squad_v2's. In transformers XLNet has such a head, ALBERT does not.
    "answerable_span": _rows("""
start_logits/dense/kernel    start_logits.dense.weight     H,1
start_logits/dense/bias      start_logits.dense.bias       1
end_logits/dense_0/kernel    end_logits.dense_0.weight     2H,H
end_logits/dense_0/bias      end_logits.dense_0.bias       H
end_logits/LayerNorm/gamma   end_logits.LayerNorm.weight   H
end_logits/LayerNorm/beta    end_logits.LayerNorm.bias     H
end_logits/dense_1/kernel    end_logits.dense_1.weight     H,1
end_logits/dense_1/bias      end_logits.dense_1.bias       1
answer_class/dense_0/kernel  answer_class.dense_0.weight   2H,H
answer_class/dense_0/bias    answer_class.dense_0.bias     H
answer_class/dense_1/kernel  answer_class.dense_1.weight   H,1
"""),
}


class Stored(NamedTuple):
    """A variable in the format of another implementation."""

    name: str
    shape: tuple[int, ...]
    shape_here: tuple[int, ...]
    is_transposed: bool = False

    def converted(self, value: np.ndarray) -> np.ndarray:
        """Its value there as it is here; for Google's and Hugging Face's formats the inverse, too."""
        return value.T if self.is_transposed else value.reshape(self.shape_here)


class Names(NamedTuple):
    """Name and shape of a variable here, and in each format."""

    ours: str
    shape: tuple[int, ...]
    google: Stored
    hugging_face: Stored
    hub: Stored


def variable_names(config: AlbertConfig, task: Mapping[str, Any], family: str | None = None) -> list[Names]:
    """The names and shapes of every variable of a model, one entry a variable.

    Args:
      config: the network's shape.
      task: what `task_of` says of the model.
      family: whose names Google's and Hugging Face's are; None: of the network's own family.

    >>> names = variable_names(AlbertConfig(), {"model": "encoder"})
    >>> names[-2].google.name, names[-2].hugging_face.name, names[-2].shape
    ('bert/pooler/dense/kernel', 'albert.pooler.weight', (768, 768))
    """
    plan = sharing_plan(config)
    encoder = [row for row in _EMBEDDINGS if config.type_vocab_size or "T" not in row.shape]
    encoder += _PROJECTION if config.has_projection else []
    for path in dict.fromkeys(pair.attention for pair in plan):
        encoder += _in_group(path, _ATTENTION, config.sharing)
    for path in dict.fromkeys(pair.feed_forward for pair in plan):
        encoder += _in_group(path, _FEED_FORWARD, config.sharing)
    encoder += _POOLER if config.pooler != "none" else []
    sizes = _sizes(config, task)
    names = [_names(row, sizes, GOOGLE_SCOPE, HUGGING_FACE_SCOPE) for row in encoder]
    names += [_names(row, sizes) for row in _head_rows(task)]
    return _in_family(names, family or config.family, task)


def head_names(task: Mapping[str, Any], family: str = "albert") -> list[Names]:
    """The names of the variables on top of the encoder, for a network of any shape."""
    names = [_names(row, _sizes(AlbertConfig(), task)) for row in _head_rows(task)]
    return _in_family(names, family, task)


def _in_family(names: list[Names], family: str, task: Mapping[str, Any]) -> list[Names]:
    """ALBERT's names made those of a family."""
    if family == "albert":
        return names
    return [
        name._replace(
            google=name.google._replace(name=google_bert_name(name.google.name)),
            hugging_face=name.hugging_face._replace(name=hugging_face_name(name.ours, family, task["model"])),
        )
        for name in names
    ]


def _head_rows(task: Mapping[str, Any]) -> list[_Row]:
    return [row for head in MODELS[task["model"]].heads(task) for row in _HEADS[head]]


def _sizes(config: AlbertConfig, task: Mapping[str, Any]) -> dict[str, int]:
    """Sizes that the letters of the shapes stand for."""
    return {
        "V": config.vocab_size,
        "E": config.embedding_size,
        "S": config.position_offset + config.max_position_embeddings,
        "T": config.type_vocab_size,
        "H": config.hidden_size,
        "I": config.intermediate_size,
        "N": config.num_attention_heads,
        "D": config.hidden_size // config.num_attention_heads,
        "K": task.get("num_labels", 1),  # of several choices, each has a logit
        "X": config.num_hidden_layers - 1,
        "1": 1,
        "2": 2,
        "2H": 2 * config.hidden_size,
    }


def _in_group(path: BlockPath, rows: Iterable[_Row], sharing: str) -> list[_Row]:
    """The variables of a block of a certain group."""
    hub = f"transformer/layer_{path.group}" if sharing == "none" else "transformer"
    hugging_face = f"encoder.albert_layer_groups.{path.group}.albert_layers.{path.inner}"
    return [
        row._replace(
            ours=f"{path.scope()}/{row.ours}",
            hugging_face=f"{hugging_face}.{row.hugging_face}",
            hub=f"{hub}/{row.hub}",
        )
        for row in rows
    ]


def _names(row: _Row, sizes: Mapping[str, int], google: str = "", hugging_face: str = "") -> Names:
    """A row of a network of certain sizes, which Google and Hugging Face have in a further scope."""
    shape, hub_shape = (
        tuple(sizes[letter] for letter in letters.split(","))
        for letters in (row.shape, row.hub_shape or row.shape)
    )
    is_kernel = row.ours.endswith("/kernel")  # which PyTorch transposes
    return Names(
        row.ours,
        shape,
        Stored(google + (row.google or row.ours), shape, shape),
        Stored(hugging_face + row.hugging_face, shape[::-1] if is_kernel else shape, shape, is_kernel),
        Stored(row.hub, hub_shape, shape),
    )
