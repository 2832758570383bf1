"""An estimator of scikit-learn from texts to labels or numbers, for its pipelines, searches and splits."""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from albert_tf.finetuning.run import finetune
from albert_tf.finetuning.settings import Finetuning
from albert_tf.inference.pipeline import Pipeline, pipeline
from albert_tf.inference.texts import text_records
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.datasets.formats import encoded
from albert_tf.tasks.datasets.tables import Row, Table, table_text
from albert_tf.training.run_settings import PathLike
from albert_tf.training.settings import Execution
from albert_tf.utils.checks import check_choice
from albert_tf.utils.errors import InputError

CLASSIFICATION, REGRESSION = "classification", "regression"

# Arguments that are fields of FinetuningRecipe.
_RECIPE = (
    *("epochs", "learning_rate", "batch_size", "seq_length", "dropout", "classifier_dropout", "pooling"),
    *("long", "window_pooling", "class_weight"),
)


class TextEstimator(BaseEstimator):
    """Fine-tunes a run on texts and their labels, as `albert-tf finetune` does on a table.

    Texts are a list, array or column of strings; pairs of texts are a list of tuples or a table of two
    columns. What is None below is as the recipe for one's own data has it.

    Args:
      init_from: where the weights begin: a run directory, or the published name of a checkpoint.
      task: "classification" or "regression".
      output: the run directory to keep; None: a temporary one, which lives as long as the estimator.
      epochs: times to go over the texts.
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
      eval_share: share of the texts that is held out.
      early_stop: evaluations without a better one that end the training; 0: it goes on to its end.
      precision: "float32", "bfloat16" or "float16".
      seed: of everything random.

    Attributes:
      classes_: labels, ascending, of a classifier.
      run_: the fine-tuned run directory, which every command and `hub_export` take.

    Note: what is held out of the texts that `fit` is given tells the best epoch, whose weights are kept.
    """

    def __init__(
        self,
        init_from: PathLike | None = None,
        *,
        task: str = CLASSIFICATION,
        output: PathLike | None = None,
        epochs: float | None = None,
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
        eval_share: float = 0.1,
        early_stop: int = 0,
        precision: str = "float32",
        seed: int = 0,
    ):
        self.init_from = init_from
        self.task = task
        self.output = output
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.seq_length = seq_length
        self.long = long
        self.doc_stride = doc_stride
        self.window_pooling = window_pooling
        self.dropout = dropout
        self.classifier_dropout = classifier_dropout
        self.pooling = pooling
        self.class_weight = class_weight
        self.eval_share = eval_share
        self.early_stop = early_stop
        self.precision = precision
        self.seed = seed

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

    def fit(self, X: Any, y: Any) -> TextEstimator:
        """Trains.

        Args:
          X: texts, [n].
          y: their labels, of any type, or numbers, [n].
        Raises:
          InputError: a setting is impossible, a text is none, or there are not as many labels as texts.
        """
        check_choice("task", self.task, (CLASSIFICATION, REGRESSION))
        records, labels = text_records(X, "X"), self._labels(y)
        if len(records) != len(labels):
            raise InputError(f"X holds {len(records)} texts and y {len(labels)} labels: give one a text")
        columns = Columns("text", "text_pair" if records[0].text_pair is not None else None, "label")
        names = [name for name in columns if name is not None]
        values = [[record.text, record.text_pair][: len(names) - 1] for record in records]
        rows = [
            Row(number, [*texts, label])
            for number, (texts, label) in enumerate(zip(values, labels, strict=True))
        ]
        recipe = {name: value for name in _RECIPE if (value := getattr(self, name)) is not None}
        if isinstance(self.class_weight, Mapping):
            recipe["class_weight"] = {str(label): weight for label, weight in self.class_weight.items()}
        self._temporary = tempfile.TemporaryDirectory()
        train = Path(self._temporary.name, "train.jsonl")
        train.write_bytes(encoded(table_text(Table("X", tuple(names), rows), train.suffix)))
        settings = Finetuning(
            output=self.output or train.with_name("run"),
            init_from=self.init_from,
            task=self.task,
            train=train,
            columns=columns,
            recipe=recipe,
            questions={} if self.doc_stride is None else {"doc_stride": self.doc_stride},
            evaluation={"eval_share": self.eval_share},
            loop={"early_stop": self.early_stop},
            execution=Execution(precision=self.precision),
            seed=self.seed,
        )
        try:
            finetune(settings)
        except InputError as error:  # which names the file, and flags
            message = re.sub(r"(?<!\S)--(?=[a-z])", "", str(error))
            raise InputError(message.replace(str(train), "X and y")) from None
        self.run_ = os.fspath(settings.output)
        self.__dict__.pop("_pipeline", None)
        return self

    @functools.cached_property
    def _pipeline(self) -> Pipeline:
        return pipeline(self.run_, self.task, batch_size=self.batch_size or 32)

    def _answers(self, X: Any, top_k: int | None = None) -> list[Any]:
        return self._pipeline([X] if isinstance(X, str) else X, top_k)

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each text, [n], or the numbers of a regression, float64 [n].

        Raises:
          NotFittedError: `fit` has not been called.
          InputError: a text is none.
        """
        check_is_fitted(self)
        if self.task == CLASSIFICATION:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        return np.array([answer["score"] for answer in self._answers(X)])

    @available_if(is_classifier)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels of a classifier, in the order of `classes_`, float64 [n, K].

        Raises: as `predict`.
        """
        check_is_fitted(self)
        places = {str(label): place for place, label in enumerate(self.classes_)}
        answers = self._answers(X, len(places))
        probabilities = np.zeros([len(answers), len(places)])
        for row, answer in zip(probabilities, answers, strict=True):
            for said in answer:
                row[places[said["label"]]] = said["score"]
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier's labels, R² of a regression's numbers."""
        measure = accuracy_score if self.task == CLASSIFICATION else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def __getstate__(self) -> dict[str, Any]:
        """State for pickle, with the files of a temporary run."""
        state = dict(super().__getstate__())
        state.pop("_pipeline", None)
        if state.pop("_temporary", None) is not None and self.output is None:
            run = Path(self.run_)
            state["_files"] = {
                str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()
            }
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is None:
            return
        self._temporary = tempfile.TemporaryDirectory()
        self.run_ = str(Path(self._temporary.name, "run"))
        for name, content in files.items():
            path = Path(self.run_, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _labels(self, y: Any) -> list[str | float]:
        """Labels as JSON has them; those of a classifier become its `classes_`."""
        values = np.asarray(y)
        if values.ndim != 1:
            raise InputError(f"y has the shape {list(values.shape)}: give one label a text, [n]")
        if self.task == REGRESSION:
            return values.astype(float).tolist()
        check_classification_targets(values)
        self.classes_, places = np.unique(values, return_inverse=True)
        names = [str(label) for label in self.classes_]
        if len({name.strip() for name in names} - {""}) < len(names) or any(x != x.strip() for x in names):
            raise InputError(f"y: {names} are not distinct names without spaces around them: rename them")
        return [names[place] for place in places]
