"""The model card beside exported modules: network, training, evaluation, use, limits."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tf_keras as keras

from albert_tf.io import dump_json
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.serving import DEFAULT, Signature

CARD = "README.md"
NO_LICENSE = "None is named: ask whoever made the model and its text."

# The text on `pooled_output` of networks with and without a pooler. It continues "`pooled_output` …".
POOLED = (
    "was trained by the sentence objective, which says little of likeness, or by a classifier with `pooling` "
    '"first"; if the run has neither, take `sequence_output`, or fine-tune it.'
)
FIRST_STATE = (
    "is the last state of the first token: the network has no pooler. No objective has trained it for "
    "whole texts: take `sequence_output`, or fine-tune it."
)

# Name and article of each family of networks.
NETWORKS = {
    "albert": ("ALBERT", "[Lan et al. 2020](https://arxiv.org/abs/1909.11942)"),
    "bert": ("BERT", "[Devlin et al. 2019](https://arxiv.org/abs/1810.04805)"),
    "roberta": ("RoBERTa", "[Liu et al. 2019](https://arxiv.org/abs/1907.11692)"),
    "distilbert": ("DistilBERT", "[Sanh et al. 2019](https://arxiv.org/abs/1910.01108)"),
}

# Marks the card of an export. An export replaces such a card, but no other README.md.
MARK = "library_name: albert_tf"


def model_card(
    run: RunDirectory,
    step: int | None,
    model: keras.Model,
    dtype: str,
    seq_length: int,
    serving: str,
    signatures: Mapping[str, Signature],
    license: str | None,
    xla: bool,
) -> str:
    """The card in Markdown. It begins with the fields that model hubs read.

    Args:
      run: run that is exported.
      step: training step of the checkpoint.
      model: Keras model of the run.
      dtype: type of the exported variables.
      seq_length: longest input of the serving model, in tokens.
      serving: path of the serving model, relative to the card.
      signatures: signatures of the serving model; empty if only the encoder is exported.
      license: name of the weights' license. None: unknown.
      xla: True if XLA compiles the exported encoders.
    """
    task = run.task.get("task")
    facts = {
        "step": step,
        "parameters": {"all": model.count_params(), "encoder": model.encoder.count_params()},
        "variables": dtype,
        "compiled": xla,
        "seq_length": seq_length,
        "task": run.task,
        "tokenizer": run.tokenizer,
        "network": model.config.to_dict(),
        # The command line would only add the names of folders on this machine.
        "recipe": {name: _remove_folders(x) for name, x in run.recipe.items() if name != "command"},
        "evaluation": run.evaluation(step),
        "requests": {name: signature.example for name, signature in signatures.items()},
    }
    network, article = NETWORKS[model.config.family]
    return fill_template(
        "card.md",
        family=model.config.family,
        network=network,
        article=article,
        front="" if license is None else f"license: {dump_json(license)}\n",  # JSON is YAML, too
        what=f"fine-tuned for {task}" if task else run.task["model"].replace("_", " "),
        facts=dump_json(facts, indent=2),
        text=fill_template("card_text.md", serving=serving, request=signatures[DEFAULT].example)
        if signatures
        else "",
        pooled=FIRST_STATE if model.config.pooler == "none" else POOLED,
        license=license or NO_LICENSE,
    )


def fill_template(template: str, **values: Any) -> str:
    """The text of a template beside this file, with its placeholders replaced by the values."""
    text = Path(__file__).with_name(template).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)


def _remove_folders(value: Any) -> Any:
    """A value of recipe.json, in which each absolute path is shortened to its last part."""
    if isinstance(value, Mapping):
        return {name: _remove_folders(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_remove_folders(part) for part in value]
    if isinstance(value, str) and "://" not in value:
        scheme, colon, path = value.rpartition(":")  # hub:/folder/of/an/encoder
        return f"{scheme}{colon}{Path(path).name}" if Path(path).is_absolute() else value
    return value
