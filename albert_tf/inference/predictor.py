"""Models that answer texts: from a run directory, in memory, or exported for serving."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import albert_tf.text.tokenizer  # noqa: F401  registers the ops of exported models
from albert_tf.constants import Tensors
from albert_tf.conversion.init_from import resolve_run
from albert_tf.errors import InputError
from albert_tf.filesystem import literal_path
from albert_tf.finetuning.finetuned_model import check_task_class, load_with_tokenizer
from albert_tf.io import json_object
from albert_tf.models.compiled_encoder import CompiledEncoder
from albert_tf.runs.build_model import task_of
from albert_tf.runs.run_directory import TASK_FILE, best_run
from albert_tf.tasks import Task, TaskEntries, create_task
from albert_tf.tasks.batches import compiled_lengths
from albert_tf.tasks.feature_extraction import FeatureExtraction
from albert_tf.tasks.formats import Records
from albert_tf.tasks.masked_words import MaskedWords
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.serving import DEFAULT, EARLY_EXIT, PATIENCE, TOP_K, ServingModel
from albert_tf.tasks.task import SEQ_LENGTH, to_arrays
from albert_tf.text.tokenizer import TextTokenizer
from albert_tf.training.distribution import uses_xla


class Predictor(NamedTuple):
    """A model with its task, which says how to call it."""

    task: Task  # with the settings of the model
    # Arguments: name of a signature, its inputs, top_k. Returns the outputs by name. Models in memory ignore
    # the name of the signature, exported models ignore top_k.
    run_signature: Callable[[str, Mapping[str, Any], int], dict[str, np.ndarray]]
    max_top_k: int | None = None  # largest top_k of fill_mask or question_answering; None: no limit
    has_exits: bool = False  # True if texts can leave early
    patience: int | None = None  # None: all layers are computed

    def outputs(self, records: Records, top_k: int) -> dict[str, np.ndarray]:
        """Computes the outputs for records of `task.parse_input`, one row each."""
        signature, inputs = self.task.to_model_inputs(records)
        if self.patience is not None:
            patience = np.full(len(records), self.patience, np.int32)
            signature, inputs = EARLY_EXIT, {**inputs, PATIENCE: patience}
        return self.run_signature(signature, inputs, top_k)

    def answers(self, records: Records, batch_size: int, top_k: int | None = None) -> list[Any]:
        """Answers records of `task.parse_input`, in their order, `batch_size` of them at a time.

        `top_k` is the number of answers to each record; None is the default of the task.
        """
        if records:
            self.task.check_records(records)
        answers: dict[int, Any] = {}
        # The longest first, so that a lack of memory shows at once.
        order = sorted(range(len(records)), key=lambda number: len(str(records[number])), reverse=True)
        for first in range(0, len(records), batch_size):
            numbers = order[first : first + batch_size]
            outputs = self.outputs([records[number] for number in numbers], top_k or TOP_K)
            for row, number in enumerate(numbers):
                of_row = {name: values[row] for name, values in outputs.items()}
                answers[number] = self.task.format_output(records[number], of_row, top_k)
        return [answers[number] for number in range(len(records))]


def load_predictor(
    source: str | os.PathLike[str],
    step: int | None,
    xla: bool | None = None,
    precision: str = "float32",
    features: Mapping[str, Any] | None = None,
) -> Predictor:
    """Loads the model of a run directory or of a published name.

    Args:
      source: path of the run, or a published name.
      step: training step of the checkpoint. None: as `load` chooses it.
      xla: see `pipeline`.
      precision: of the computation, "float32" or "bfloat16".
      features: settings of `FeatureExtraction`, for embeddings. None: answers of the model's task.
    Raises:
      InputError: the model has no head that answers, weights are non-finite, or a file is damaged.
      FileNotFoundError: there is no run, no checkpoint or no vocabulary.
    """
    run = best_run(resolve_run(source))
    check_task_class(run)
    return create_predictor(*load_with_tokenizer(run, step, precision), run.task, xla, features)


def create_predictor(
    model: Any,
    tokenizer: TextTokenizer,
    entries: TaskEntries,
    xla: bool | None = None,
    features: Mapping[str, Any] | None = None,
) -> Predictor:
    """Creates a predictor from a model in memory and the entries of its task.json.

    See `load_predictor` for `xla` and `features`.
    """
    entries = {**entries, **task_of(model)}
    task = (
        create_task(entries) if features is None else FeatureExtraction(model.config.hidden_size, **features)
    )
    seq_length = entries.get("seq_length", min(SEQ_LENGTH, model.config.max_position_embeddings))
    served = ServingModel(model, tokenizer, seq_length, entries)
    if uses_xla(xla):
        served = served._replace(compiled=CompiledEncoder(served.encoder, compiled_lengths(seq_length)))

    @functools.lru_cache(maxsize=8)
    def trace(top_k: int, *specs: tf.TensorSpec) -> Callable[..., Tensors]:
        task.check_model(served)
        answer = functools.partial(task.answer, served._replace(top_k=top_k))
        function = tf.function(answer, autograph=False)
        return function.get_concrete_function(**{spec.name: spec for spec in specs})

    def run_signature(_: str, inputs: Mapping[str, Any], top_k: int) -> dict[str, np.ndarray]:
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        specs = [tf.TensorSpec([None] * x.shape.rank, x.dtype, name) for name, x in tensors.items()]
        return to_arrays(trace(max(top_k, TOP_K), *specs)(**tensors))

    max_top_k = task.settings.n_best if isinstance(task, QuestionAnswering) else None
    return Predictor(task, run_signature, max_top_k, served.has_exits)


def load_exported_predictor(folder: Path, features: Mapping[str, Any] | None = None) -> Predictor:
    """Loads an exported serving model from a folder with a saved_model.pb.

    See `load_predictor` for `features`. Raises InputError if the module does not answer texts.
    """
    loaded = tf.saved_model.load(literal_path(str(folder)))
    outputs = {name: signature.structured_outputs for name, signature in loaded.signatures.items()}

    def run_signature(signature: str, inputs: Mapping[str, Any], _: int) -> dict[str, np.ndarray]:
        if signature not in outputs:
            raise InputError(f"{folder} has no signature {signature!r}: export the run again")
        # This closure keeps `loaded` alive, which its signatures do not.
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        return to_arrays(loaded.signatures[signature](**tensors))

    if features is not None and (embeddings := outputs.get(FeatureExtraction.signature)):
        return Predictor(FeatureExtraction(embeddings["embedding"].shape[-1], **features), run_signature)
    file = folder / "assets" / TASK_FILE
    entries = {"model": "pretrainer"} if "fill_mask" in outputs else None
    if file.is_file() and DEFAULT in outputs:
        entries = json_object(file.read_bytes(), file)
    if features is not None or entries is None:
        problem = "answers" if features is None else "embeds texts"
        embeds = FeatureExtraction.signature in outputs
        remedy = 'ask for "feature-extraction"' if embeds else "name the folder hub/serving of an export"
        raise InputError(f"{folder} has no signature that {problem}: {remedy}")
    task = create_task(entries)
    has_limit = isinstance(task, MaskedWords | QuestionAnswering)
    max_top_k = outputs[task.signature]["scores"].shape[-1] if has_limit else None
    return Predictor(task, run_signature, max_top_k, EARLY_EXIT in outputs)
