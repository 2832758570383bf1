"""An estimator of scikit-learn from texts to labels or numbers, for its pipelines, searches and splits."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from absl import logging
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuned_model import run_task
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.task_table import find_task_spec
from albert_tf.inference.estimator_data import (
    MADE_BY,
    PickledRun,
    check_columns,
    check_replaceable,
    class_names,
    classes_and_names,
    column_names,
    one_dimensional,
    row_weights,
    write_table,
)
from albert_tf.inference.inputs import LabelEncoder, expand_weight, parse_texts
from albert_tf.inference.pipeline import Pipeline
from albert_tf.io import PathLike
from albert_tf.runs.run_directory import RunDirectory, best_run
from albert_tf.training.compute_settings import ComputeConfig

CLASSIFICATION, REGRESSION = "classification", "regression"

# Arguments that are fields of FinetuningRecipe.
_RECIPE = (
    *("epochs", "steps", "learning_rate", "batch_size", "seq_length", "dropout", "classifier_dropout"),
    *("pooling", "long", "window_pooling", "class_weight", "label_smoothing"),
)


class TextEstimator(BaseEstimator):
    """Fine-tunes a run on texts and their labels, as `albert-tf finetune` does on a table.

    Texts are a list, array or column of strings; pairs of texts are a list of tuples or a table of two
    columns. What is None below is as the recipe for one's own data has it.

    Args:
      init_from: where the weights begin: a run directory, or the published name of a checkpoint.
      task: "classification" or "regression".
      output: place of a run directory that each `fit` writes when it is done, instead of that of an earlier
        `fit`, of whatever estimator; it replaces nothing else. None: there is none. Predictions and pickles
        are of the estimator's own weights in any case.
      epochs: times to go over the texts.
      steps: updates, in place of epochs.
      learning_rate: rate that the warm-up climbs to.
      batch_size: texts an update, and texts at a time in predictions.
      seq_length: longest input in tokens.
      long: what is read of longer texts: "truncate", "head_tail" or "windows"; see `LongTexts`.
      doc_stride: tokens from one window to the next.
      window_pooling: the logits of a text are the "mean" or the "max" of its windows'.
      dropout: of hidden states and attention.
      classifier_dropout: before the classifier.
      pooling: what the classifier reads, "first" or "mean".
      class_weight: weights in the loss, "balanced" or by label; None: all weigh the same.
      label_smoothing: share of a label that is spread evenly over all, in the loss.
      threshold: probability from which on a text has the second of two labels; "auto": that which is best on
        what is held out; None: where it is the likelier.
      eval_share: share of the texts that is held out.
      best_by: metric on these, such as "accuracy", "f1", "auc", "pearson", "rmse" or "loss", that tells the
        best epoch; None: "accuracy" or "pearson".
      early_stop: evaluations without a better one that end the training; 0: it goes on to its end.
      precision: "float32", "bfloat16" or "float16".
      seed: of everything random.
      verbose: 0: `fit` shows warnings alone; 1: its log, and on a terminal a progress bar.

    Attributes:
      classes_: labels, ascending, of a classifier.
      feature_names_in_: names of the columns of X, where it is a table.
      threshold_: that by which two labels are told apart; None: the likelier one is taken.
      run_: the fine-tuned run directory, which every command and `hub_export` take: `output`, or a temporary
        one that lives as long as the estimator.

    Note: what is held out of the texts that `fit` is given tells the best epoch, whose weights are kept.
    """

    def __init__(
        self,
        init_from: PathLike | None = None,
        *,
        task: str = CLASSIFICATION,
        output: PathLike | None = None,
        epochs: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        seq_length: int | None = None,
        long: str | None = None,
        doc_stride: int | None = None,
        window_pooling: str | None = None,
        dropout: float | None = None,
        classifier_dropout: float | None = None,
        pooling: str | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        label_smoothing: float | None = None,
        threshold: float | str | None = None,
        eval_share: float = 0.1,
        best_by: str | None = None,
        early_stop: int = 0,
        precision: str = "float32",
        seed: int = 0,
        verbose: int = 0,
    ):
        given = locals()
        for name in self._get_param_names():
            setattr(self, name, given[name])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.no_validation = True
        if self.task == CLASSIFICATION:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TextEstimator:
        """Trains anew.

        Args:
          X: texts, [n].
          y: their labels, of any type, or numbers, [n].
          sample_weight: weights of the texts in the loss, [n] or one number, which multiply those of
            `class_weight`; what is held out is scored without. None: all weigh the same.
        Raises:
          ValueError: a setting is impossible, a label is missing, a text or weight is none, or they are not
            as many; a missing text is read as an empty one.
          FileExistsError: there is something else than the run of an earlier `fit` at `output`.
        """
        if self.task not in (CLASSIFICATION, REGRESSION):
            others = "`albert-tf finetune` trains for others"
            raise InputError(f"task={self.task!r} is none of {CLASSIFICATION}, {REGRESSION}: {others}")
        if self.init_from is None:
            raise InputError("init_from is missing: name a run directory or a published checkpoint")
        output = None if self.output is None else RunDirectory(self.output, "output")
        if output is not None:
            check_replaceable(output)
        texts, weights, y = parse_texts(X, "X"), None, one_dimensional(y)
        if self.task == CLASSIFICATION:
            classes, labels = classes_and_names(y)
            check_classification_targets(classes)
        else:
            numbers = LabelEncoder(None, 1, None).targets(np.asarray(y), len(texts), "y")
            classes, labels = None, numbers.tolist()
        if sample_weight is not None:
            weights = row_weights(sample_weight, len(texts))
        # Grids of hyper-parameters hold scalars of NumPy.
        params = self.get_params(deep=False).items()
        given = {name: x.item() if isinstance(x, np.generic) else x for name, x in params}
        recipe = {name: given[name] for name in _RECIPE if given[name] is not None}
        if isinstance(self.class_weight, Mapping):
            recipe["class_weight"] = {str(label): weight for label, weight in self.class_weight.items()}
        with tempfile.TemporaryDirectory() as folder, _log_shown(self.verbose):
            train = Path(folder, "train.jsonl")
            settings = Finetuning(
                output=train.with_name("run"),
                init_from=self.init_from,
                task=self.task,
                train=train,
                columns=write_table(train, texts, labels),
                sample_weight=weights,
                recipe=recipe,
                questions={} if self.doc_stride is None else {"doc_stride": given["doc_stride"]},
                evaluation={name: given[name] for name in ("eval_share", "best_by")},
                threshold=given["threshold"],
                loop={"early_stop": given["early_stop"]},
                execution=ComputeConfig(precision=self.precision),
                seed=given["seed"],
                command=MADE_BY,
            )
            try:
                finetune(settings)
            except InputError as error:  # which names the file, and flags
                message = re.sub(r"(?<!\S)--(?=[a-z])", "", str(error))
                raise InputError(message.replace(str(train), "X and y")) from None
            run = PickledRun.of(RunDirectory(settings.output))
        if output is not None:
            run.copy_to(output)
        return self._fitted(run, classes, column_names(X))

    def _fitted(self, run: PickledRun, classes: Any, columns: Any) -> TextEstimator:
        self._run, self.threshold_ = run, RunDirectory(run.path).task.get("threshold")
        self.__dict__.pop("feature_names_in_", None)
        if columns is not None:
            self.feature_names_in_ = columns
        if classes is not None:
            self.classes_ = classes
        return self

    @classmethod
    def from_pretrained(cls, run: PathLike, **arguments: Any) -> TextEstimator:
        """The fitted estimator of a run for classification or regression, such as `albert-tf finetune` makes.

        Its `classes_` are the names of the labels. The arguments are those of the class, for a `fit` anew.
        """
        there = best_run(run)
        kind = find_task_spec(run_task(there.task, there)).kind.name
        estimator = cls(**{"init_from": os.fspath(run), "task": kind, **arguments})
        if kind != REGRESSION and (kind != CLASSIFICATION or "labels" not in there.task):
            wanted = f"{REGRESSION} or {CLASSIFICATION} with names of labels"
            raise InputError(f"{there} is not fine-tuned for {wanted}: name such a run")
        classes = np.sort(np.array(there.task["labels"])) if kind == CLASSIFICATION else None
        return estimator._fitted(PickledRun.of(there), classes, None)

    @property
    def run_(self) -> str:
        """The fine-tuned run directory."""
        return self._run.output or self._run.path

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_run")

    def _answers(self, X: Any, top_k: int | None = None) -> list[Any]:
        check_is_fitted(self)
        check_columns(column_names(X), getattr(self, "feature_names_in_", None))
        texts = [(x.text, x.text_pair) if x.text_pair is not None else x.text for x in parse_texts(X, "X")]
        return Pipeline(self._run.predictor, self.batch_size or 32)(texts, top_k)

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each text, or that by the threshold, [n]; of a regression float64 [n].

        Raises:
          NotFittedError: `fit` has not been called.
          InputError: a text is none (a missing one is read as empty), or the columns are not those of `fit`.
        """
        answers = self._answers(X)
        if self.task == REGRESSION:
            return np.array([answer["score"] for answer in answers])
        places = self._places
        return self.classes_[np.array([places[answer["label"]] for answer in answers], int)]

    @available_if(is_classifier)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels of a classifier, in the order of `classes_`, float64 [n, K].

        Raises: as `predict`.
        """
        check_is_fitted(self)
        places = self._places
        answers = self._answers(X, len(places))
        probabilities = np.zeros([len(answers), len(places)])
        for row, answer in zip(probabilities, answers, strict=True):
            for said in answer:
                row[places[said["label"]]] = said["score"]
        return probabilities / probabilities.sum(axis=1, keepdims=True)  # they are float32's

    @available_if(is_classifier)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`, float64 [n, K]; raises as `predict`."""
        return np.log(self.predict_proba(X))

    @property
    def _places(self) -> dict[str, int]:
        """Places of the labels in `classes_` by their names in the run."""
        return {name: place for place, name in enumerate(class_names(self.classes_))}

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier's labels, R² of a regression's numbers; weights as in `fit`."""
        measure = accuracy_score if self.task == CLASSIFICATION else r2_score
        predicted = self.predict(X)
        return float(measure(y, predicted, sample_weight=expand_weight(sample_weight, len(predicted))))


@contextlib.contextmanager
def _log_shown(verbose: int) -> Iterator[None]:
    """Shows the log while the block runs, or warnings alone."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO if verbose else logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
