"""Names of the parts of BERT, RoBERTa and DistilBERT.

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

_IN_LAYER = re.compile(r"encoder/transformer/group_(\d+)/inner_group_0/(.+)")


def google_bert_name(part: str) -> str:
    """The name in google-research/bert's code of a part of the network, from google-research/albert's.

    >>> google_bert_name("bert/encoder/transformer/group_1/inner_group_0/ffn_1/intermediate/dense")
    'bert/encoder/layer_1/intermediate/dense'
    """
    return _IN_LAYER.sub(
        lambda found: f"encoder/layer_{found[1]}/{_LAYER[found[2]][0].replace('.', '/')}", part
    )


def hugging_face_name(part: str, family: str, model: str) -> str:
    """The name in Hugging Face's files of a part of the network.

    Args:
      part: its name here.
      family: "bert", "roberta" or "distilbert".
      model: the model's kind, as task.json has it.

    >>> hugging_face_name("pooler/dense", "roberta", "classifier")
    'classifier.dense'
    """
    has_pooler = (family, model) == ("roberta", "classifier")
    others = _OTHERS[family] | (_ROBERTA_CLASSIFIER if has_pooler else {})
    if match := _IN_LAYER.fullmatch(part):
        bert, distilbert = _LAYER[match[2]]
        layers, there = ("transformer", distilbert) if family == "distilbert" else ("encoder", bert)
        return f"{family}.{layers}.layer.{match[1]}.{there}"
    if part in others:
        return others[part]
    scope = f"{family}." if part.startswith(("embeddings/", "pooler/")) else ""
    return scope + part.replace("/", ".")
