"""Models that answer: of a run directory, in memory, or exported for serving."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import albert_tf.tokenizers  # noqa: F401  registers the ops of exported models
from albert_tf.checkpoints.models import task_of
from albert_tf.checkpoints.run import check_finite, load, opened_run
from albert_tf.conversion import start as starts
from albert_tf.inference.sources import PathLike
from albert_tf.tasks import Kind, TaskConfig, kind_of
from albert_tf.tasks.kind import SEQ_LENGTH
from albert_tf.tasks.serving import DEFAULT, PAIR, TOP_K, Served
from albert_tf.tokenizers import PieceTokenizer, Vocabulary
from albert_tf.utils.errors import InputError


class Answerer(NamedTuple):
    """A model that answers by the signatures of its kind.

    Attributes:
      kind: of task.
      ask: function from the name of a signature, its inputs, and the fillings of a mask to its outputs.
      max_top_k: fillings of a mask at most; None: any number.
    """

    kind: Kind
    ask: Callable[[str, Mapping[str, Any], int], dict[str, np.ndarray]]
    max_top_k: int | None = None


def run_answerer(run: PathLike, step: int | None) -> Answerer:
    """The model of a run directory.

    Args:
      run: the directory.
      step: of the checkpoint; None: that which `load` takes.
    Raises:
      InputError: the model has no head that answers, weights are non-finite, or a file is damaged.
      FileNotFoundError: there is no checkpoint or no vocabulary.
    """
    directory = opened_run(run)
    start, entries = starts.start_of_run(directory), directory.task
    if entries["model"] == "encoder":
        raise InputError(
            f"{run} is of an encoder without a head: it answers nothing; TextClassifier trains one"
        )
    model = load(directory, step)
    check_finite(model, run, step)
    tokenizer = PieceTokenizer(Vocabulary.from_file(start.vocabulary), **start.tokenizer)
    return model_answerer(model, tokenizer, entries)


def model_answerer(model: Any, tokenizer: PieceTokenizer, config: TaskConfig) -> Answerer:
    """A model in memory.

    Args:
      model: a pretrainer or another one with a head.
      tokenizer: text to token ids.
      config: content of its task.json.
    """
    config = {**config, **task_of(model)}
    kind = kind_of(config)
    seq_length = config.get("seq_length", min(SEQ_LENGTH, model.config.max_position_embeddings))
    served = Served(model, tokenizer, seq_length, config)

    @functools.lru_cache(maxsize=2)
    def signatures(top_k: int) -> dict[str, Callable[..., Any]]:
        found = kind.signatures(served._replace(top_k=top_k))
        return {name: signature.function for name, signature in found.items()}

    def ask(signature: str, inputs: Mapping[str, Any], top_k: int) -> dict[str, np.ndarray]:
        return _outputs(signatures(max(top_k, TOP_K))[signature], inputs)

    return Answerer(kind, ask)


def exported_answerer(folder: Path) -> Answerer:
    """An exported serving model.

    Args:
      folder: with its saved_model.pb.
    Raises:
      InputError: it is not a serving model, or none that answers.
    """
    try:
        loaded = tf.saved_model.load(str(folder))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise InputError(f"{folder} is not a SavedModel, or damaged: {error}") from error
    config = _exported_config(loaded.signatures)
    if config is None:
        raise InputError(f"{folder} has no signature that answers: name the folder hub/serving of an export")

    def ask(signature: str, inputs: Mapping[str, Any], _: int) -> dict[str, np.ndarray]:
        # `loaded` is held here, for signatures do not hold what they are of.
        outputs = _outputs(loaded.signatures[signature], inputs)
        if "label" in outputs and outputs["labels"].ndim == 1:  # of earlier exports, the same for all rows
            outputs["labels"] = np.tile(outputs["labels"], [len(outputs["label"]), 1])
        return outputs

    max_top_k = None
    if config["model"] == "pretrainer":
        max_top_k = loaded.signatures["fill_mask"].structured_outputs["scores"].shape[-1]
    return Answerer(kind_of(config), ask, max_top_k)


def _exported_config(signatures: Mapping[str, Any]) -> TaskConfig | None:
    """Entries of task.json that the signatures of a serving model tell."""
    if "fill_mask" in signatures:
        return {"model": "pretrainer"}
    if "answer" in signatures:
        answerability = "no_answer_score" in signatures["answer"].structured_outputs
        return {"model": "span_labeler", "answerability": answerability}
    if "tag" in signatures:
        return {"model": "token_classifier"}
    if "choose" in signatures:
        choices = signatures["choose"].structured_outputs["scores"].shape[-1]
        return {"model": "multiple_choice", "num_choices": choices}
    if DEFAULT not in signatures:
        return None
    outputs = signatures[DEFAULT].structured_outputs
    if not {"scores", "score"} & outputs.keys():
        return None
    count = outputs["scores"].shape[-1] if "scores" in outputs else 1
    config = {"model": "classifier", "num_labels": count, "multi_label": "is_label" in outputs}
    inputs = signatures[DEFAULT].structured_input_signature[1]
    if PAIR not in signatures or "text_pair" in inputs:
        config["takes_pairs"] = PAIR in signatures
    return config


def _outputs(function: Callable[..., Any], inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    outputs = function(**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: tensor.numpy() for name, tensor in outputs.items()}
