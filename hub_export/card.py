"""The model card beside exported modules: network, training, evaluation, use, limits."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tf_keras as keras

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.features import FIRST
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.tasks.serving import DEFAULT
from hub_export.serving import Served, Signature

CARD = "README.md"

# Tells cards of an export, which may be replaced, from other files.
MARK = "library_name: albert_tf"

# `pipeline_tag` of model hubs by the kind of model in task.json; there is none for regression.
PIPELINES = {
    "encoder": "feature-extraction",
    "pretrainer": "fill-mask",
    "classifier": "text-classification",
    "token_classifier": "token-classification",
    "span_labeler": "question-answering",
    "multiple_choice": "multiple-choice",
}

# What the example calls the encoder with.
IDS = """
names = ("input_word_ids", "input_mask", "input_type_ids")
inputs = {name: tf.ones([1, 3], tf.int32) for name in names}"""
TEXTS = """import tensorflow_text  # the ops that read text

preprocessor = hub.KerasLayer("preprocessor")
inputs = preprocessor(tf.constant(["A text.", "Another."]))"""


class Facts(NamedTuple):
    """An export, and the run that it is of."""

    run: RunDirectory
    step: int | None  # of the exported checkpoint
    model: keras.Model
    dtype: str  # of the exported variables
    served: Served | None  # parts of the serving model; None where the encoder is exported alone
    signatures: Mapping[str, Signature]
    version: int  # of the serving model
    license: str | None  # of the weights, where somebody has named it


def model_card(facts: Facts) -> str:
    """The card, as Markdown with the fields that model hubs read in front."""
    entries, step = facts.run.task, facts.step
    model, task, labels = entries["model"], entries.get("task"), entries.get("labels")
    front = "" if entries.get("num_labels") == 1 else f"pipeline_tag: {PIPELINES[model]}\n"
    if facts.license is not None:
        front += f"license: {json.dumps(facts.license)}\n"  # which YAML reads, too
    encoder = facts.model if isinstance(facts.model, AlbertEncoder) else facts.model.encoder
    total, of_encoder = (sum(math.prod(x.shape) for x in part.variables) for part in (facts.model, encoder))
    network = {"model": model, "parameters, all": f"{total:,}", "parameters, encoder": f"{of_encoder:,}"}
    network |= {**facts.model.config.to_dict(), "variables": facts.dtype}
    # The command line adds only names of a machine's folders.
    recipe = {name: _said(value) for name, value in facts.run.recipe.items() if name != "command"}
    metrics = {
        name.removeprefix("eval_"): f"{value:.4g}"
        for line in facts.run.metrics()
        for name, value in line.items()
        if line["step"] == step and name.startswith("eval_") and value is not None
    }
    return _filled(
        "card.md",
        front=front,
        what=f"fine-tuned for {_cell(task)}" if task else model.replace("_", " "),
        parameters=f"{total:,}",
        labels=f" Its labels are {_listed(labels)}, in the order of the scores." if labels else "",
        network=_table(network),
        training=f"Step {step} of a run with this recipe:\n\n"
        + _table({n: x for n, x in recipe.items() if x})
        if recipe
        else f"Step {step}. The run says nothing of how its weights came about.",
        evaluation=f"Of step {step}, on the text that the run was evaluated on:\n\n" + _table(metrics)
        if metrics
        else f"The run has no metrics of an evaluation of step {step}.",
        inputs=IDS if facts.served is None else TEXTS,
        serving=_serving(facts) if facts.signatures else "",
        limits="\n".join(f"- {line}" for line in _limits(facts)),
        license=facts.license or "None is named: ask whoever made the model and its text.",
    )


def _filled(template: str, **values: Any) -> str:
    """A template beside this file with its placeholders filled in."""
    text = Path(__file__).with_name(template).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)


def _said(value: Any) -> str:
    """A value of recipe.json as text; of an absolute path its last part."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {said}" for name, item in value.items() if (said := _said(item)))
    if isinstance(value, list | tuple):
        return _listed(map(_said, value))
    if isinstance(value, str) and "://" not in value:
        scheme, colon, path = value.rpartition(":")  # hub:/folder/of/an/encoder
        return f"{scheme}{colon}{Path(path).name}" if Path(path).is_absolute() else value
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _serving(facts: Facts) -> str:
    request = facts.signatures[DEFAULT].example
    body = json.dumps({"signature_name": DEFAULT, "inputs": request}, ensure_ascii=False)
    return _filled(
        "card_serving.md",
        version=facts.version,
        signature=DEFAULT,
        arguments=", ".join(f"{name}=tf.constant({value!r})" for name, value in request.items()),
        signatures=_listed(facts.signatures),
        body=body.replace("'", "'\\''"),
    )


def _limits(facts: Facts) -> Iterable[str]:
    yield f"An input has at most {facts.model.config.max_position_embeddings} tokens."
    if facts.served is not None:
        length, tokenizer = facts.served.seq_length, facts.served.tokenizer
        yield f"The preprocessor's inputs have {length} tokens unless told otherwise, the server's no more."
        case = "folds case" if tokenizer.settings["lowercase"] else "keeps case"
        accents = "drops accents" if tokenizer.settings["strip_accents"] else "keeps accents"
        yield f"The tokenizer {case} and {accents}."
    objective = facts.run.task.get("sentence_objective")
    if objective == "none":
        yield "`pooled_output` was not trained: take it only if you fine-tune it, and else `sequence_output`."
    elif objective is not None:
        yield f"`pooled_output` was trained on sentence pairs ({objective}), not to be close for texts alike."
    if facts.run.task.get("pooling", FIRST) != FIRST:
        yield "It answers from the mean of all tokens' states: fine-tuning has not trained `pooled_output`."
    if facts.dtype == "bfloat16":
        yield "The variables are rounded to bfloat16: for answers, not for further training."


def _table(rows: Mapping[str, Any]) -> str:
    cells = {"": "", "---": "---", **rows}
    return "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in cells.items())


def _cell(value: Any) -> str:
    """Text in one line that ends no cell of a table."""
    return " ".join(str(value).split()).replace("|", "\\|")


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(f"`{_cell(value)}`" for value in values)
