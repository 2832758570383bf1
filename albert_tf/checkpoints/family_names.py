"""Names of the variables of BERT, RoBERTa and DistilBERT.

Google's are those of google-research/bert's code, Hugging Face's those of transformers.
"""

from __future__ import annotations

import re

# The parts of a layer: here; in BERT and RoBERTa, of which Google's names have "/"; in DistilBERT.
_LAYER = {
    ours: (bert, distilbert)
    for ours, bert, distilbert in (
        line.split()
        for line in """
attention_1/self/query          attention.self.query       attention.q_lin
attention_1/self/key            attention.self.key         attention.k_lin
attention_1/self/value          attention.self.value       attention.v_lin
attention_1/output/dense        attention.output.dense     attention.out_lin
LayerNorm                       attention.output.LayerNorm sa_layer_norm
ffn_1/intermediate/dense        intermediate.dense         ffn.lin1
ffn_1/intermediate/output/dense output.dense               ffn.lin2
LayerNorm_1                     output.LayerNorm           output_layer_norm
""".strip().splitlines()
    )
}

# The parts outside the layers which have other names in Hugging Face's files.
_OTHERS = {
    "bert": {"cls/squad": "qa_outputs"},
    "roberta": {
        "cls/predictions/transform/dense": "lm_head.dense",
        "cls/predictions/transform/LayerNorm": "lm_head.layer_norm",
        "cls/predictions": "lm_head",
        "cls/squad": "qa_outputs",
    },
    "distilbert": {
        "pooler/dense": "pre_classifier",
        "cls/predictions/transform/dense": "vocab_transform",
        "cls/predictions/transform/LayerNorm": "vocab_layer_norm",
        "cls/predictions": "vocab_projector",
        "cls/squad": "qa_outputs",
    },
}
# RobertaForSequenceClassification has the pooler in its head.
_ROBERTA_CLASSIFIER = {"pooler/dense": "classifier.dense", "classifier": "classifier.out_proj"}

# The names of parameters in PyTorch; tables of embeddings are layers there, with a weight.
_PARAMETERS = {
    **{"kernel": "weight", "gamma": "weight", "output_weights": "weight"},
    **{"bias": "bias", "beta": "bias", "output_bias": "bias"},
}

_IN_LAYER = re.compile(r"encoder/transformer/group_(\d+)/inner_group_0/(.+)/(\w+)")


def google_bert_name(name: str) -> str:
    """The name in google-research/bert's code of a variable, from the name in google-research/albert's.

    >>> google_bert_name("bert/encoder/transformer/group_1/inner_group_0/ffn_1/intermediate/dense/bias")
    'bert/encoder/layer_1/intermediate/dense/bias'
    """

    def of_bert(match: re.Match[str]) -> str:
        return f"encoder/layer_{match[1]}/{_LAYER[match[2]][0].replace('.', '/')}/{match[3]}"

    return _IN_LAYER.sub(of_bert, name)


def hugging_face_name(ours: str, family: str, model: str) -> str:
    """The name in Hugging Face's files of a variable.

    Args:
      ours: the name here.
      family: "bert", "roberta" or "distilbert".
      model: the model's kind, as task.json has it.

    >>> hugging_face_name("pooler/dense/kernel", "roberta", "classifier")
    'classifier.dense.weight'
    """
    part, _, parameter = ours.rpartition("/")
    if parameter not in _PARAMETERS:
        return f"{family}.{ours.replace('/', '.')}.weight"
    others = {
        **_OTHERS[family],
        **(_ROBERTA_CLASSIFIER if (family, model) == ("roberta", "classifier") else {}),
    }
    if match := _IN_LAYER.fullmatch(ours):
        bert, distilbert = _LAYER[match[2]]
        layers, there = ("transformer", distilbert) if family == "distilbert" else ("encoder", bert)
        part = f"{family}.{layers}.layer.{match[1]}.{there}"
    elif part in others:
        part = others[part]
    elif part.startswith(("embeddings/", "pooler/")):
        part = f"{family}.{part}"
    return f"{part.replace('/', '.')}.{_PARAMETERS[parameter]}"
