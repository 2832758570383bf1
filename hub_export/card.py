"""The model card beside exported modules: what they are, how they came about, how good they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from albert_tf.errors import InputError
from albert_tf.features import FIRST
from albert_tf.tasks.serving import DEFAULT
from hub_export.facts import Facts

CARD = "README.md"

# By which an export knows what it may replace.
MARK = "library_name: albert_tf"

# What a model is for in the words of model hubs, by its kind in task.json; a number has none of its own.
PIPELINES = {
    "encoder": "feature-extraction",
    "pretrainer": "fill-mask",
    "classifier": "text-classification",
    "token_classifier": "token-classification",
    "span_labeler": "question-answering",
    "multiple_choice": "multiple-choice",
}

# What the pooled output of a network has learnt, by the objective of its pre-training.
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

# Of recipe.json: the command line says nothing more but names of a machine's folders.
NOT_SHOWN = ("command",)
MOST_SHOWN = 20  # of a list

TEXT_OPS = "import tensorflow_text  # the ops that read text"


def check_license(name: str | None) -> None:
    """An InputError where a license is named by what is not a name."""
    if name is not None and (not name.strip() or not name.isprintable()):
        raise InputError(f"license={name!r} must be a name in one line, such as apache-2.0")


def check_card(path: Path) -> None:
    """FileExistsError if there is a file of this name that no export has written."""
    if os.path.lexists(path) and not (path.is_file() and MARK in path.read_text("utf-8", "replace")):
        raise FileExistsError(f"{path} is not the card of an export: name another --output")


def model_card(facts: Facts) -> str:
    """The card, as Markdown with the fields that model hubs read in front."""
    sections = (
        _front(facts),
        _title(facts),
        "## Network\n\n" + _table(("", ""), _network(facts)),
        "## Training\n\n" + _training(facts),
        "## Evaluation\n\n" + _evaluation(facts),
        "## Use\n\n" + "\n\n".join(_use(facts)),
        "## Limits\n\n" + "\n".join(f"- {line}" for line in _limits(facts)),
        "## License\n\n" + (facts.license or "None is named: ask whoever made the model and its text."),
    )
    return "\n\n".join(sections) + "\n"


def _front(facts: Facts) -> str:
    lines = [MARK, "tags:", "- albert", "- tensorflow"]
    if facts.task.get("num_labels") != 1:
        lines.append(f"pipeline_tag: {PIPELINES[facts.task['model']]}")
    if facts.license is not None:
        lines.append(f"license: {json.dumps(facts.license)}")  # which YAML reads, too
    return "\n".join(["---", *lines, "---"])


def _title(facts: Facts) -> str:
    model, task = facts.task["model"], facts.task.get("task")
    what = f"fine-tuned for {_cell(task)}" if task else f"{_article(model)} {model.replace('_', ' ')}"
    labels = facts.task.get("labels")
    answers = f" Its labels are {_listed(labels)}, in the order of the scores." if labels else ""
    return (
        f"# ALBERT, {what}\n\nAn ALBERT ([Lan et al. 2020](https://arxiv.org/abs/1909.11942)) of "
        f"{facts.parameters()['all']:,} parameters as TensorFlow SavedModels.{answers}"
    )


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _network(facts: Facts) -> list[tuple[str, Any]]:
    counted = [(f"parameters, {name}", f"{number:,}") for name, number in facts.parameters().items()]
    shape = [(name, getattr(facts.model.config, name)) for name in SHAPE]
    return [("model", facts.task["model"]), *counted, *shape, ("variables", facts.dtype)]


def _training(facts: Facts) -> str:
    recipe = {name: _said(value) for name, value in facts.recipe().items() if name not in NOT_SHOWN}
    if not recipe:
        return f"Step {facts.step}. The run says nothing of how its weights came about."
    rows = [(name, said) for name, said in recipe.items() if said]
    return f"Step {facts.step} of a run with this recipe:\n\n" + _table(("", ""), rows)


def _said(value: Any) -> str:
    """A value of recipe.json in a cell; paths of a machine by their last part, which is what names a text."""
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


def _use(facts: Facts) -> Iterable[str]:
    yield (
        "In this folder, with tensorflow, tensorflow-text and tf_keras of one version, and tensorflow-hub; "
        "`pooled_output` is [B, H], `sequence_output` [B, S, H]:"
    )
    if facts.served is None:
        names = '("input_word_ids", "input_mask", "input_type_ids")'
        imports, inputs = [], f"inputs = {{name: tf.ones([1, 3], tf.int32) for name in {names}}}"
        call = "encoder(inputs)"
    else:
        imports, inputs = [TEXT_OPS], 'preprocessor = hub.KerasLayer("preprocessor")'
        call = 'encoder(preprocessor(tf.constant(["A text.", "Another."])))'
    yield _code(
        "python",
        "import os",
        "",
        'os.environ["TF_USE_LEGACY_KERAS"] = "1"  # hub.KerasLayer takes part in Keras 2 models only',
        "import tensorflow as tf",
        "import tensorflow_hub as hub",
        *imports,
        "",
        inputs,
        'encoder = hub.KerasLayer("encoder", trainable=True)',
        f"outputs = {call}",
    )
    if facts.signatures:
        yield from _serving(facts)


def _serving(facts: Facts) -> Iterable[str]:
    request = facts.signatures[DEFAULT].example
    arguments = ", ".join(f"{name}=tf.constant({value!r})" for name, value in request.items())
    yield "The model for TF Serving goes from text to answers, and answers in Python, too:"
    yield _code(
        "python",
        "import tensorflow as tf",
        TEXT_OPS,
        "",
        f'served = tf.saved_model.load("serving/{facts.version}")',
        f'answers = served.signatures["{DEFAULT}"]({arguments})',
    )
    yield f"It has the signatures {_listed(facts.signatures)}. Served, and asked by REST:"
    body = json.dumps({"signature_name": DEFAULT, "inputs": request}, ensure_ascii=False)
    quoted = body.replace("'", "'\\''")
    yield _code(
        "sh",
        "tensorflow_model_server --rest_api_port=8501 --model_name=albert --model_base_path=$PWD/serving &",
        f"curl localhost:8501/v1/models/albert:predict -d '{quoted}'",
    )


def _limits(facts: Facts) -> Iterable[str]:
    yield f"An input has at most {facts.model.config.max_position_embeddings} tokens."
    if facts.served is not None:
        length, tokenizer = facts.served.seq_length, facts.served.tokenizer
        yield f"The preprocessor's inputs have {length} tokens unless told otherwise, the server's no more."
        case = "folds case" if tokenizer.lowercase else "keeps case"
        accents = "drops accents" if tokenizer.strip_accents else "keeps accents"
        yield f"The tokenizer {case} and {accents}."
    if (objective := facts.task.get("sentence_objective")) in POOLED:
        yield f"`pooled_output` {POOLED[objective]}"
    if facts.task.get("pooling", FIRST) != FIRST:
        yield "It answers from the mean of all tokens' states: fine-tuning has not trained `pooled_output`."
    if facts.dtype == "bfloat16":
        yield "The variables are rounded to bfloat16: for answers, not for further training."
    yield (
        "The model knows the languages and the kinds of text that it was trained on, and repeats what these "
        "say. The program that wrote this card has not examined it for bias."
    )


def _code(language: str, *lines: str) -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def _table(header: tuple[str, str], rows: Iterable[tuple[str, Any]]) -> str:
    cells = [header, ("---", "---"), *rows]
    return "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in cells)


def _cell(value: Any) -> str:
    """Text for a cell or a line: what would end either is not in it."""
    return " ".join(str(value).split()).replace("|", "\\|")


def _listed(values: Iterable[Any]) -> str:
    found = [_cell(value) for value in values]
    more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    return ", ".join(f"`{value}`" for value in found[:MOST_SHOWN]) + more
