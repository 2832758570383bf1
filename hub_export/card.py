"""The model card beside exported modules: network, training, evaluation, use, limits."""

from __future__ import annotations

import json
import os
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from albert_tf.features import FIRST
from albert_tf.tasks.serving import DEFAULT
from albert_tf.utils.errors import InputError
from hub_export.facts import Facts

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

# What `pooled_output` has learnt, by the sentence objective of pre-training.
POOLED = {
    "sop": "was trained to tell whether two segments are in order, not to be close for texts alike.",
    "nsp": "was trained to tell whether one segment follows another, not to be close for texts alike.",
    "none": "was not trained: take it only if you fine-tune it, and else `sequence_output`.",
}

SHAPE = (
    "num_hidden_layers",
    "hidden_size",
    "embedding_size",
    "num_attention_heads",
    "intermediate_size",
    "sharing",
    "num_hidden_groups",
    "inner_group_num",
    "vocab_size",
    "max_position_embeddings",
)

# The command line in recipe.json adds only names of a machine's folders.
HIDDEN = ("command",)
MAX_LISTED = 20

# What the example calls the encoder with.
IDS = """
names = ("input_word_ids", "input_mask", "input_type_ids")
inputs = {name: tf.ones([1, 3], tf.int32) for name in names}"""
TEXTS = """import tensorflow_text  # the ops that read text

preprocessor = hub.KerasLayer("preprocessor")
inputs = preprocessor(tf.constant(["A text.", "Another."]))"""


def check_license(name: str | None) -> None:
    """InputError unless a license is a name in one line."""
    if name is not None and (not name.strip() or not name.isprintable()):
        raise InputError(f"license={name!r} must be a name in one line, such as apache-2.0")


def check_card(path: Path) -> None:
    """FileExistsError if there is a file of this name that no export has written."""
    if os.path.lexists(path) and not (path.is_file() and MARK in path.read_text("utf-8", "replace")):
        raise FileExistsError(f"{path} is not the card of an export: name another --output")


def model_card(facts: Facts) -> str:
    """The card, as Markdown with the fields that model hubs read in front."""
    model, task, labels = facts.task["model"], facts.task.get("task"), facts.task.get("labels")
    article = "an" if model[0] in "aeiou" else "a"
    return _filled(
        "card.md",
        front="".join(f"{line}\n" for line in _front(facts)),
        what=f"fine-tuned for {_cell(task)}" if task else f"{article} {model.replace('_', ' ')}",
        parameters=f"{facts.parameters()['all']:,}",
        labels=f" Its labels are {_listed(labels)}, in the order of the scores." if labels else "",
        network=_table(("", ""), _network(facts)),
        training=_training(facts),
        evaluation=_evaluation(facts),
        inputs=IDS if facts.served is None else TEXTS,
        serving=_serving(facts) if facts.signatures else "",
        limits="\n".join(f"- {line}" for line in _limits(facts)),
        license=facts.license or "None is named: ask whoever made the model and its text.",
    )


def _filled(template: str, **values: Any) -> str:
    """A template beside this file with its placeholders filled in."""
    text = Path(__file__).with_name(template).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)


def _front(facts: Facts) -> Iterable[str]:
    if facts.task.get("num_labels") != 1:
        yield f"pipeline_tag: {PIPELINES[facts.task['model']]}"
    if facts.license is not None:
        yield f"license: {json.dumps(facts.license)}"  # which YAML reads, too


def _network(facts: Facts) -> list[tuple[str, Any]]:
    counted = [(f"parameters, {name}", f"{number:,}") for name, number in facts.parameters().items()]
    shape = [(name, getattr(facts.model.config, name)) for name in SHAPE]
    return [("model", facts.task["model"]), *counted, *shape, ("variables", facts.dtype)]


def _training(facts: Facts) -> str:
    recipe = {name: _said(value) for name, value in facts.run.recipe.items() if name not in HIDDEN}
    if not recipe:
        return f"Step {facts.step}. The run says nothing of how its weights came about."
    rows = [(name, said) for name, said in recipe.items() if said]
    return f"Step {facts.step} of a run with this recipe:\n\n" + _table(("", ""), rows)


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


def _evaluation(facts: Facts) -> str:
    rows = [(name, f"{value:.4g}") for name, value in facts.figures().items()]
    if not rows:
        return f"The run has no figures of an evaluation of step {facts.step}."
    return f"Of step {facts.step}, on the text that the run was evaluated on:\n\n" + _table(
        ("figure", ""), rows
    )


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
    if (objective := facts.task.get("sentence_objective")) in POOLED:
        yield f"`pooled_output` {POOLED[objective]}"
    if facts.task.get("pooling", FIRST) != FIRST:
        yield "It answers from the mean of all tokens' states: fine-tuning has not trained `pooled_output`."
    if facts.dtype == "bfloat16":
        yield "The variables are rounded to bfloat16: for answers, not for further training."


def _table(header: tuple[str, str], rows: Iterable[tuple[str, Any]]) -> str:
    cells = [header, ("---", "---"), *rows]
    return "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in cells)


def _cell(value: Any) -> str:
    """Text in one line that ends no cell of a table."""
    return " ".join(str(value).split()).replace("|", "\\|")


def _listed(values: Iterable[Any]) -> str:
    found = [_cell(value) for value in values]
    more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    return ", ".join(f"`{value}`" for value in found[:MAX_LISTED]) + more
