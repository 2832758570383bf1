"""A Keras model from texts to logits: tokenizer, encoder and classifier in one."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.directory import best_run
from albert_tf.checkpoints.models import arguments_of, build_model
from albert_tf.checkpoints.run import check_finite, save, stored_model
from albert_tf.conversion import start as starts
from albert_tf.features import MASK
from albert_tf.finetuning.recipes import RECIPES
from albert_tf.inference.labels import (
    check_metrics,
    check_one_hot,
    takes_one_hot,
    target_tensor,
    targets,
)
from albert_tf.inference.texts import are_pairs, segments, text_records
from albert_tf.models.padding import skip_padding
from albert_tf.models.task_models import AlbertClassifier
from albert_tf.tasks.classification import PAIRS_KEY, takes_pairs, text_rows
from albert_tf.tasks.examples.rows import TokenRows, check_length, unread
from albert_tf.tokenizer_settings import SENTENCEPIECE, TOKENIZER_DEFAULTS, VOCABULARY_FILES
from albert_tf.tokenizers import pack
from albert_tf.tokenizers.given import checked_texts, listed
from albert_tf.tokenizers.kinds import KINDS, TextTokenizer, open_tokenizer
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import checked_path

PathLike = str | os.PathLike[str]

RECIPE = RECIPES["classification"]
AUTO = "auto"

# Token ids, and batches that Keras takes as they are.
_NOT_TEXTS = (Mapping, keras.utils.Sequence, Iterator, tf.distribute.DistributedDataset)


@keras.saving.register_keras_serializable("albert_tf")
class TextClassifier(keras.Model):
    """Texts, string [B], or pairs of them to logits float32 [B, K]; with one label, K = 1, it is regression.

    Pairs are a tuple of two string [B], or one string [B, 2]. `fit`, `evaluate` and `predict` also take
    lists, arrays and pandas Series of texts, which they tokenise once, before the first epoch; what is too
    much for memory comes in a tf.data.Dataset of batches. Called with token ids, a dict of the encoder's
    inputs, it goes on from them. What it is saved as holds the vocabulary, too.

    Args:
      classifier: the network.
      tokenizer: text to the ids that the network knows.
      labels: names in the order of the logits; None: they have none.
      seq_length: longest input in tokens; of longer texts the beginning is read.
      pad_to_length: True if every batch is as long as that, which TPUs want; else it is as long as its
        longest text.
      takes_pairs: True if it learned pairs of texts, and refuses single ones; False if the other way round;
        None until `fit` says.
      **kwargs: of keras.Model, such as `name`.
    Raises:
      InputError: a setting does not fit the network.
    """

    def __init__(
        self,
        classifier: AlbertClassifier,
        tokenizer: TextTokenizer,
        labels: Sequence[str] | None = None,
        seq_length: int = RECIPE.seq_length,
        pad_to_length: bool = False,
        takes_pairs: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(autocast=False, dtype=classifier.dtype_policy, **kwargs)
        self.classifier = classifier
        self.tokenizer = tokenizer
        self.labels = None if labels is None else tuple(checked_texts(listed(labels), "labels"))
        count, longest = classifier.num_labels, classifier.config.max_position_embeddings
        if self.labels is not None and (count == 1 or not len(self.labels) == len(set(self.labels)) == count):
            raise InputError(
                f"labels={list(self.labels)} must be num_labels={count} different names, two at least"
            )
        self._format = tokenizer.vocabulary.input_format
        self.seq_length = check_length("seq_length", seq_length, 1 + self._format.num_special_tokens(2))
        if seq_length > longest:
            raise InputError(f"seq_length={seq_length} is more than max_position_embeddings={longest}")
        self.pad_to_length = pad_to_length
        self._begins_at_mean = False
        self.built = True
        self._learn_form(takes_pairs)

    def _learn_form(self, pairs: bool | None) -> None:
        self.takes_pairs = pairs
        # Of what a SavedModel takes; Keras would have it from the first call, which may be one of token ids.
        self._saved_model_inputs_spec = None  # else Keras keeps the first
        self._set_save_spec(tf.TensorSpec([None, 2] if pairs else [None], tf.string, "text"))

    def _check_form(self, pairs: bool, argument: str) -> None:
        if self.takes_pairs not in (None, pairs):
            given, learned = ("pairs of texts", "single texts")[:: 1 if pairs else -1]
            raise InputError(f"{argument} holds {given}: the model learned {learned}")

    @classmethod
    def from_run(
        cls,
        run: PathLike,
        num_labels: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        step: int | None = None,
        vocabulary: PathLike | None = None,
        dropout: float = RECIPE.dropout,
        classifier_dropout: float = RECIPE.classifier_dropout,
        pooling: str | None = None,
        dtype: Any = None,
        **settings: Any,
    ) -> TextClassifier:
        """The network of a run, pre-trained, fine-tuned or converted, or of a published name.

        A run that is fine-tuned for classification or regression has labels, which are taken with its head
        unless others are asked for; all other networks get a fresh head.

        Args:
          run: the directory, a published name such as "albert_base_v2", or "hub:" and the folder of a TF 2
            encoder.
          num_labels: K; None: as many as `labels`, or those of the run.
          labels: their names, in the order of the logits.
          step: of the checkpoint; None: that which `load` takes.
          vocabulary: SentencePiece model of a run that has none.
          dropout: of hidden states and attention.
          classifier_dropout: of what the head reads.
          pooling: what the head reads, "first" or "mean" (see `AlbertClassifier`); None: as the run's head.
          dtype: as of keras.Model, such as "mixed_bfloat16".
          **settings: further arguments of this class, such as `seq_length`.
        Raises:
          InputError: it is not a run, it does not fit the arguments, or neither of them tells the labels.
          FileNotFoundError: there is no such checkpoint or vocabulary.
          WorkFailed: what is published cannot be downloaded.
        """
        is_folder = checked_path(run, "run").is_dir()
        origin = best_run(run).path if is_folder else os.fspath(run)
        with starts.opened(origin, vocabulary) as start:
            assert start.run is not None
            stored = stored_model(start.run, step)
            there = stored.task if stored.task["model"] == "classifier" else {}
            if labels is None and num_labels in (None, there.get("num_labels")):
                labels = there.get("labels")
            if num_labels is None:
                num_labels = there.get("num_labels") if labels is None else len(labels)
            if num_labels is None:
                raise InputError(
                    f"num_labels is missing: {origin} is not of a classifier: say it, or name the labels"
                )
            head = {"num_labels": num_labels, "pooling": pooling or RECIPE.pooling}
            if there:
                head["pooling"] = pooling or arguments_of(there)["pooling"]
            names = there.get("labels", labels)
            is_kept = bool(there) and head == arguments_of(there) and names in (None, labels)
            if there and not is_kept:
                logging.warning(
                    "%s has a head of %s, labels %s, which is left: that of %s, labels %s, begins at random",
                    origin, arguments_of(there), names, head, labels,
                )  # fmt: skip

            fresh = () if is_kept else ("classifier/output_weights", "classifier/output_bias")

            def read(name: str) -> np.ndarray | None:
                return None if name in fresh else stored.read(name)

            recipe = RECIPE.replace(dropout=dropout, classifier_dropout=classifier_dropout)
            config = recipe.network(stored.config)
            classifier = build_model(config, {"model": "classifier", **head}, read, dtype=dtype)
            check_finite(classifier, start.run, step)
            tokenizer = open_tokenizer(start.vocabulary, **start.tokenizer)
        length = there.get("seq_length", min(RECIPE.seq_length, config.max_position_embeddings))
        learned = takes_pairs(there) if is_kept else None
        model = cls(
            classifier, tokenizer, labels, **{"seq_length": length, "takes_pairs": learned, **settings}
        )
        model._begins_at_mean = num_labels == 1 and not is_kept
        return model

    @classmethod
    def from_pretrained(
        cls, name: PathLike, num_labels: int | None = None, **settings: Any
    ) -> TextClassifier:
        """`from_run` under the name that it has elsewhere."""
        return cls.from_run(name, num_labels, **settings)

    @classmethod
    def from_hub(cls, folder: PathLike, num_labels: int | None = None, **settings: Any) -> TextClassifier:
        """An exported or published TF 2 encoder with a fresh head; settings are those of `from_run`."""
        return cls.from_run(f"{starts.HUB}{checked_path(folder, 'folder')}", num_labels, **settings)

    @classmethod
    def load(cls, path: PathLike) -> TextClassifier:
        """The model that `save` has written, as a SavedModel or `.keras`: as `keras.models.load_model`.

        Raises:
          InputError: it is another model.
          OSError: there is no model.
        """
        try:
            model = keras.models.load_model(os.fspath(checked_path(path, "path")))
        except (TypeError, ValueError) as error:  # of layers that Keras does not know
            raise InputError(f"path={os.fspath(path)!r} holds no {cls.__name__}: {error}") from error
        if not isinstance(model, cls):
            raise InputError(f"path={os.fspath(path)!r} holds another model than a {cls.__name__}")
        return model

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        """As `call`, also of lists and arrays of texts, which Keras does not convert."""
        if not isinstance(inputs, Mapping):
            if not all(map(tf.is_tensor, tf.nest.flatten(inputs))):
                records = text_records(inputs, "inputs")
                pairs = records[0].text_pair is not None
                inputs = tf.constant([[x.text, x.text_pair] if pairs else x.text for x in records])
            self._check_form(are_pairs(inputs), "inputs")
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        """The logits of texts, of pairs or of token ids; see the class."""
        ids = inputs if isinstance(inputs, Mapping) else self._token_ids(inputs)
        if not self.pad_to_length:
            longest = tf.maximum(tf.reduce_max(tf.reduce_sum(ids[MASK], axis=1)), 1)  # of no rows, too
            ids = {name: tensor[:, :longest] for name, tensor in ids.items()}
            if not training:
                ids = skip_padding(ids)
        return self.classifier(ids, training=training)["logits"]

    def _token_ids(self, texts: Any) -> dict[str, tf.Tensor]:
        """The encoder's inputs, int32 [B, S] each, of tensors of texts."""
        return pack([self.tokenizer(text) for text in segments(texts)], self.seq_length, self._format)

    def compile(self, optimizer: Any = AUTO, loss: Any = AUTO, metrics: Any = AUTO, **kwargs: Any) -> None:
        """Keras' `compile`, whose loss and metrics are those of labels or regression unless they are given.

        Args:
          optimizer: as Keras takes it; "auto" is Adam at the rate of fine-tuning on one's own data.
          loss: as Keras takes it, of logits.
          metrics: as Keras takes them.
          **kwargs: as Keras takes them.
        """
        is_regression = self.classifier.num_labels == 1
        if optimizer == AUTO:
            optimizer = keras.optimizers.Adam(RECIPE.learning_rate)
        if loss == AUTO:
            cross_entropy = keras.losses.SparseCategoricalCrossentropy
            loss = keras.losses.MeanSquaredError() if is_regression else cross_entropy(from_logits=True)
        if metrics == AUTO:
            metrics = [] if is_regression else ["accuracy"]
        weighted = kwargs.get("weighted_metrics")
        check_metrics([metrics, weighted], takes_one_hot(loss), self.classifier.num_labels)
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles as the saved model was; Keras does not call a `compile` that is not its own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(
        self, x: Any = None, y: Any = None, *args: Any, validation_data: Any = None, **kwargs: Any
    ) -> Any:
        """Keras' `fit`; as in `finetune`, a new head of regression begins at the mean of what it is to learn.

        Args:
          x: texts or pairs of them, see the class.
          y: of each text its label, by number or by name, or one-hot where the loss is categorical; of
            regression a number. In a tf.data.Dataset they stand beside the texts.
          *args: as Keras takes them.
          validation_data: texts and labels as in x and y.
          **kwargs: as Keras takes them.
        Returns:
          The history.
        Raises:
          InputError: what should be a text or a label is not.
        """
        x, y = self._prepared(x, y, "x", learns=True)
        if self._begins_at_mean and isinstance(y, np.ndarray):
            self.classifier.classifier.output_bias.assign([y.mean()])
        self._begins_at_mean = False
        if isinstance(validation_data, tuple | list):
            texts, labels, *weights = validation_data
            validation_data = (*self._prepared(texts, labels, "validation_data"), *weights)
        elif validation_data is not None:
            validation_data, _ = self._prepared(validation_data, None, "validation_data")
        return super().fit(x, y, *args, validation_data=validation_data, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Keras' `evaluate`; texts and labels as in `fit`."""
        return super().evaluate(*self._prepared(x, y, "x"), *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        """The logits of all texts, float32 [N, K]; texts as in `fit`."""
        return super().predict(self._prepared(x, None, "x")[0], *args, **kwargs)

    def _prepared(self, x: Any, y: Any, argument: str, learns: bool = False) -> tuple[Any, Any]:
        """Token ids for texts, and what the loss takes for labels, if there are any."""
        loss = getattr(self, "loss", None)  # which Keras sets when it compiles
        is_one_hot = takes_one_hot(loss)
        names, num_labels = self.labels, self.classifier.num_labels
        if isinstance(x, tf.data.Dataset):
            texts = x.element_spec[0] if isinstance(x.element_spec, tuple) else x.element_spec
            if any(
                part.shape.rank == (1 if isinstance(texts, Mapping) else 0) for part in tf.nest.flatten(texts)
            ):
                raise InputError(f"{argument} is an unbatched tf.data.Dataset: give {argument}.batch(32)")
            if not isinstance(texts, Mapping):
                self._check_or_learn(are_pairs(texts), argument, learns)

            def prepare(texts: Any, *rest: Any) -> Any:
                ids = texts if isinstance(texts, Mapping) else self._token_ids(texts)
                if not rest:
                    return ids
                check_one_hot(rest[0], loss, num_labels, argument)
                return ids, target_tensor(rest[0], names, num_labels, is_one_hot, argument), *rest[1:]

            # Not converted by autograph, which would wrap an InputError in an error of its own.
            return x.map(tf.autograph.experimental.do_not_convert(prepare), tf.data.AUTOTUNE), y
        if isinstance(x, _NOT_TEXTS):
            return x, y
        records = text_records(x, argument)
        pairs = {record.text_pair is not None for record in records}
        if len(pairs) != 1:
            raise InputError(f"{argument} holds no texts, or both single ones and pairs")
        if y is not None:
            called = "y" if argument == "x" else f"{argument}[1]"
            y = targets(y, names, num_labels, len(records), called)
            check_one_hot(y, loss, num_labels, called)
            y = np.eye(num_labels, dtype=np.float32)[y] if is_one_hot and y.ndim == 1 else y
        self._check_or_learn(pairs.pop(), argument, learns)
        rows = text_rows(records, self.tokenizer, {})  # each text once, however many epochs there are
        for line in unread(rows, self.seq_length) if learns else ():
            logging.warning(line)
        return _packed(rows, self.seq_length), y

    def _check_or_learn(self, pairs: bool, argument: str, learns: bool) -> None:
        if learns:
            self._learn_form(pairs)
        else:
            self._check_form(pairs, argument)

    def save_run(self, run: PathLike, step: int = 0) -> None:
        """Writes a run directory, which `hub_export`, `predict` and `pipeline` read.

        Args:
          run: the directory; one that exists gets one more step.
          step: that the weights are of.
        Raises:
          FileExistsError, InputError: as `albert_tf.save`.
        """
        with tempfile.TemporaryDirectory() as folder:
            files = {Path(folder, name): content for name, content in self.tokenizer.files().items()}
            for file, content in files.items():
                file.write_bytes(content)
            vocabulary, settings = next(iter(files)), self.tokenizer.settings
            save(self.classifier, run, vocabulary, step, settings, task=self.task_entries())

    def task_entries(self) -> dict[str, Any]:
        """Entries of task.json beyond the model's class."""
        count = self.classifier.num_labels
        entries: dict[str, Any] = {"task": "regression", "seq_length": self.seq_length}
        if count > 1:
            labels = list(self.labels or map(str, range(count)))
            entries |= {"task": "classification", "labels": labels}
        return entries if self.takes_pairs is None else {**entries, PAIRS_KEY: self.takes_pairs}

    def get_config(self) -> dict[str, Any]:
        """The arguments of `from_config` for the same, untrained model, with its vocabulary."""
        return {
            "name": self.name,
            "classifier": self.classifier.get_config(),
            "kind": self.tokenizer.kind,
            "vocabulary": {
                name: base64.b64encode(content).decode("ascii")
                for name, content in self.tokenizer.files().items()
            },
            **self.tokenizer.settings,
            "labels": None if self.labels is None else list(self.labels),
            "seq_length": self.seq_length,
            "pad_to_length": self.pad_to_length,
            "takes_pairs": self.takes_pairs,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> TextClassifier:
        """An untrained model of the same shape and vocabulary."""
        config = dict(config)
        classifier = AlbertClassifier.from_config(config.pop("classifier"))
        kind, vocabulary = config.pop("kind", SENTENCEPIECE), config.pop("vocabulary")
        if isinstance(vocabulary, str):  # of older files, which were all of one kind
            vocabulary = dict.fromkeys(VOCABULARY_FILES[SENTENCEPIECE], vocabulary)
        files = {name: base64.b64decode(content) for name, content in vocabulary.items()}
        settings = {name: config.pop(name) for name in TOKENIZER_DEFAULTS}
        return cls(classifier, KINDS[kind].from_files(files, **settings), **config)


def _packed(rows: TokenRows, seq_length: int) -> dict[str, np.ndarray]:
    """The encoder's inputs, int32 [N, S] each, of texts that stand one after the other, column by column."""
    with tf.device("CPU:0"):
        tokens = [
            tf.RaggedTensor.from_row_lengths(rows.tokens[starts[0] : starts[-1] + lengths[-1]], lengths)
            for starts, lengths in zip(rows.starts.T, rows.lengths.T, strict=True)
        ]
        ids = pack(tokens, seq_length, rows.vocabulary.input_format)
    return {name: tensor.numpy() for name, tensor in ids.items()}
