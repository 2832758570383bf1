"""A model as a function from text to answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from albert_tf.checkpoints.run import non_finite
from albert_tf.finetuning.trained import PATIENCE
from albert_tf.inference.answerers import Answerer, exported_answerer, model_answerer, run_answerer
from albert_tf.inference.arguments import TASKS, source_and_task
from albert_tf.inference.sources import PathLike, is_keras_model, run_directory, serving_folder
from albert_tf.inference.text_classifier import TextClassifier
from albert_tf.inference.texts import text_columns
from albert_tf.tasks.classification import TextKind
from albert_tf.tasks.serving import TOP_K
from albert_tf.tokenizers.given import listed
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import checked_path


def pipeline(
    source: PathLike | TextClassifier | None = None,
    task: str | None = None,
    *,
    model: PathLike | TextClassifier | None = None,
    batch_size: int = 32,
    step: int | None = None,
) -> Pipeline:
    """A function from texts to the answers of a model.

    Args:
      source: a run directory or the published name of a checkpoint; the folder of an exported serving model,
        or of several versions of it; a TextClassifier, or what its `save` has written.
      task: what it must answer, where it is to be an error that the model does something else:
        "fill_mask" (pre-trained runs), "classification", "multi_label", "regression", "question_answering",
        "tagging" or "multiple_choice", or by the names of Hugging Face, such as "text-classification". It
        may come first, as it does there.
      model: another name of `source`.
      batch_size: texts at a time; it decides about memory and speed, not about the answers.
      step: of a run's checkpoint; None: that which `load` takes.
    Raises:
      InputError: the source is none of these, it does not answer, or something else than the task.
      FileNotFoundError: a run has no such checkpoint or no vocabulary.
    """
    source, task = source_and_task(source, task, model)
    if not _is_count(batch_size):
        raise InputError(f"batch_size={batch_size!r} must be a whole number of at least 1")
    answerer = _answerer(source, step)
    if task is not None and answerer.kind.name not in TASKS[task]:
        named = source.name if isinstance(source, TextClassifier) else source
        raise InputError(f"task={task!r}: the model of {named} answers {answerer.kind.name}")
    return Pipeline(answerer, batch_size)


def _answerer(source: Any, step: int | None) -> Answerer:
    folder = None
    if not isinstance(source, TextClassifier):
        if is_keras_model(checked_path(source, "source")):
            source = TextClassifier.load(source)
        else:
            folder = serving_folder(source)
            if folder is None:
                run = run_directory(
                    source, "source", "nor an exported serving model: that has a saved_model.pb"
                )
                return run_answerer(run, step)
    if step is not None:
        raise InputError(
            f"step={step} is of a run's checkpoint: {folder or 'a TextClassifier'} has one model"
        )
    if folder is not None:
        return exported_answerer(folder)
    if names := non_finite(source.classifier):
        raise InputError(f"{source.name}: NaN or infinity in {', '.join(names)}: train it again")
    return model_answerer(source.classifier, source.tokenizer, source.task_entries())


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


class Pipeline:
    """A function from texts to answers, made by `pipeline`.

    Args:
      answerer: the model.
      batch_size: texts at a time.
    """

    def __init__(self, answerer: Answerer, batch_size: int):
        self._answerer = answerer
        self._batch_size = batch_size

    @property
    def task(self) -> str:
        """Name of the task, as `pipeline` takes it."""
        return self._answerer.kind.name

    def __call__(self, inputs: Any, top_k: int | None = None) -> Any:
        """The answers to texts, in their order; to a single text (a str or dict) a single one.

        A progress bar is shown on a terminal where it takes long.

        Args:
          inputs: a list, or another iterable, of
            classification, multi_label, regression: texts, or pairs of them as tuples (text, text_pair);
            fill_mask: texts with `[MASK]` in them;
            tagging: texts, whose words stand between spaces;
            question_answering: dicts of `question` and `context`;
            multiple_choice: dicts of `context`, `question` and `options`.
          top_k: of classification and multi_label, how many labels are wanted of each text, in a list; of
            fill_mask, how many tokens, 5 unless it is given.
        Returns:
          Of each text, with probabilities as `score`:
            classification: {"label", "score"}, or a list of them where `top_k` is given;
            multi_label: [{"label", "score"}, …], those at least as likely as the model's threshold;
            regression: {"score"}, the number itself;
            fill_mask: [{"token", "score"}, …], or a list of such lists for several masks;
            tagging: [{"label", "score", "start", "end", "text"}, …], an entity each;
            question_answering: {"answer", "score", "start", "end"}; where there is likely no answer, an empty
            one, with the probability of that;
            multiple_choice: {"label", "score"}, the option's number from 0.
          Start and end are characters of the text, the end behind the last one.
        Raises:
          InputError: an input is not what the task takes; the message says which.
        """
        is_one = isinstance(inputs, str | Mapping)
        values = [inputs] if is_one else self._values(inputs)
        self._check_top_k(top_k)
        kind = self._answerer.kind
        records = [kind.read(value, "inputs" if is_one else f"inputs[{n}]") for n, value in enumerate(values)]
        kind.check(records)
        answers: list[Any] = [None] * len(records)
        # The longest first: if memory does not suffice, it is soon known.
        order = sorted(range(len(records)), key=lambda number: len(str(values[number])), reverse=True)
        with tqdm(total=len(records), disable=None, delay=PATIENCE, unit=" texts") as bar:
            for first in range(0, len(records), self._batch_size):
                numbers = order[first : first + self._batch_size]
                for number, answer in zip(
                    numbers, self._answers([records[n] for n in numbers], top_k), strict=True
                ):
                    answers[number] = answer
                bar.update(len(numbers))
        return answers[0] if is_one else answers

    def _answers(self, records: Sequence[Any], top_k: int | None) -> list[Any]:
        kind = self._answerer.kind
        outputs = self._answerer.ask(*kind.request(records), top_k or TOP_K)
        return [
            kind.answer(record, {name: values[n] for name, values in outputs.items()}, top_k)
            for n, record in enumerate(records)
        ]

    def _values(self, inputs: Any) -> list[Any]:
        is_two = isinstance(inputs, tuple) and len(inputs) == 2 and all(isinstance(x, str) for x in inputs)
        is_texts = isinstance(self._answerer.kind, TextKind)
        if is_texts and isinstance(inputs, tuple | list) and [*map(type, inputs)] == [list, list]:
            return list(zip(*text_columns(inputs, "inputs"), strict=True))  # as `TextClassifier` takes pairs
        if is_two and is_texts:
            raise InputError(
                "inputs: a tuple of two texts may be a pair or two texts: give a list, [(text, text_pair)] "
                "or [text, text]"
            )
        if not isinstance(inputs, Iterable) and not hasattr(inputs, "__array__"):
            raise InputError(f"inputs={inputs!r} is neither a text nor a list of them")
        return listed(inputs)

    def _check_top_k(self, top_k: int | None) -> None:
        if top_k is None:
            return
        if self.task not in ("classification", "multi_label", "fill_mask"):
            raise InputError(f"top_k={top_k}: {self.task} has one answer")
        if not _is_count(top_k):
            raise InputError(f"top_k={top_k!r} must be a whole number of at least 1")
        most = self._answerer.max_top_k
        if most is not None and top_k > most:
            raise InputError(f"top_k={top_k}: the exported model gives {most} at most")
