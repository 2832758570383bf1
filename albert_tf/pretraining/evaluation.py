"""Evaluates a pre-trained run on held-out text: losses, accuracies and perplexity."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.constants import INPUT_MASK, MLM_IDS, MLM_WEIGHTS
from albert_tf.data.dataset import pretraining_dataset
from albert_tf.data.example_builder import fill_batch
from albert_tf.data.sources import check_makes_examples, evaluation_files
from albert_tf.data.tfrecords import name_damaged_files
from albert_tf.errors import InputError, MissingFileError, check_range
from albert_tf.models.task_models import AlbertPretrainer
from albert_tf.pretraining.loss import pretraining_loss_fn, pretraining_metrics
from albert_tf.pretraining.pretraining_settings import read_recipe
from albert_tf.recipes import ExampleSettings
from albert_tf.runs.load_save import load_checked
from albert_tf.runs.run_directory import open_run
from albert_tf.settings import flatten_record, replace_fields
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS
from albert_tf.training.metrics_logger import make_evaluator
from albert_tf.training.train_step import Batch


@name_damaged_files()
def evaluate_run(
    path: str | os.PathLike[str],
    inputs: Sequence[str],
    batch_size: int = 32,
    max_examples: int | None = None,
    passes: int = 1,
    step: int | None = None,
    xla: bool | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Evaluates a pre-trained run. The examples are the same each time.

    To compare runs that were trained with other lengths or masks, give all of them the same settings.

    Args:
      path: directory of a pre-trained run, with its vocabulary.
      inputs: text files, prepared directories or TFRecords. Of a directory that `prepare` wrote, only its
        held-out part is used.
      batch_size: number of examples in a batch. It affects memory, not the metrics.
      max_examples: largest number of examples. None: all.
      passes: number of passes over the text, each with other pairs and masks. Short texts have few masks.
      step: step of the checkpoint. None: the newest.
      xla: True to compile the model with XLA. None: on GPUs only.
      **changes: fields of ExampleSettings, such as `masked_lm_prob`. Default: the settings of the run's
        training or, if it does not record them (a converted run), the paper's.
    Returns:
      `step`, `examples` (their number) and `seq_length`; `eval_loss`, `eval_mlm_loss` (nats),
      `eval_mlm_accuracy`, loss and accuracy of the sentence objective, `eval_mlm_perplexity`, and
      `eval_mlm_unigram_entropy`: the loss (nats) of always predicting the frequencies of the masked tokens.
      A model that uses context has a lower loss.
    Raises:
      FileNotFoundError: the run, its vocabulary or an input is missing.
      InputError: the run is not pre-trained, there is nothing to evaluate on, or a file is damaged.
    """
    run = open_run(path)
    step = max(run.steps(), default=None) if step is None else step
    model = load_checked(run, step)
    if not isinstance(model, AlbertPretrainer):
        raise InputError(f"{run} holds no pre-training heads, it is of an {type(model).__name__}")
    if run.vocabulary is None:
        raise MissingFileError(f"{run} has no vocabulary: copy it there")
    check_range("passes", passes, at_least=1)
    chosen = [*changes.keys() - {"seq_length", "max_predictions"}, *(["passes"] if passes > 1 else [])]
    check_makes_examples(evaluation_files(inputs), run.load_tokenizer(), chosen)
    if "seq_length" in changes or "masked_lm_prob" in changes:
        changes.setdefault("max_predictions", None)
    changes["sentence_objective"] = model.sentence_objective
    settings = replace_fields(read_recipe(run).examples, **changes)
    if not settings.masked_lm_prob:
        raise InputError("masked_lm_prob=0: no token is masked, there is nothing to tell: set masked_lm_prob")
    model.config.check_length(settings.seq_length, f"{run} has no more positions")
    # The run stores the other settings of its tokenizer.
    tokenizer = {name: run.tokenizer[name] for name in TOKENIZER_DEFAULTS}
    options: dict[str, Any] = {**flatten_record(settings), **tokenizer, "shuffle": False, "repeat": False}
    arguments = (evaluation_files(inputs), run.vocabulary, batch_size)
    one_pass = functools.partial(pretraining_dataset, *arguments, **options)
    dataset = functools.reduce(tf.data.Dataset.concatenate, (one_pass(seed=seed) for seed in range(passes)))
    if max_examples is not None:
        check_range("max_examples", max_examples, at_least=1)
        dataset = first_examples(dataset, max_examples, batch_size, settings)
    counter = ExampleCounter(model.config.vocab_size)
    evaluate = make_evaluator(model, pretraining_loss_fn(model.sentence_objective), xla)
    terms = evaluate(counter.count_batches(dataset))
    if not terms["mlm"].weight:
        raise InputError("no token of the text's examples is masked: give more text")
    return {
        "step": step,
        "examples": counter.num_examples,
        "seq_length": settings.seq_length,
        **{f"eval_{name}": value for name, value in pretraining_metrics(terms).items()},
        "eval_mlm_unigram_entropy": counter.unigram_entropy,
    }


def first_examples(
    dataset: tf.data.Dataset, count: int, batch_size: int, settings: ExampleSettings
) -> tf.data.Dataset:
    """Batches of the first `count` examples of a dataset. Rows that fill up a batch are no examples."""
    # Stored examples have their own number of predictions.
    settings = replace_fields(settings, max_predictions=dataset.element_spec[MLM_IDS].shape[1])
    rows = dataset.unbatch().filter(lambda row: row[INPUT_MASK][0] > 0).take(count).batch(batch_size)
    return rows.map(lambda rows: fill_batch(rows, batch_size, settings))


class ExampleCounter:
    """Counts examples and masked tokens of batches on their way to the model.

    Attributes:
      num_examples: number of examples, without the rows that fill up the last batch.
      masked_counts: how often each token was masked, int64 [V].
    """

    def __init__(self, vocab_size: int):
        self.num_examples = 0
        self.masked_counts = np.zeros([vocab_size], np.int64)

    def count_batches(self, dataset: Iterable[Batch]) -> Iterator[Batch]:
        """Yields the batches unchanged, and counts each."""
        for batch in dataset:
            self.num_examples += int(np.asarray(batch[INPUT_MASK])[:, 0].sum())
            masked = np.asarray(batch[MLM_IDS])[np.asarray(batch[MLM_WEIGHTS]) > 0]
            self.masked_counts += np.bincount(masked, minlength=len(self.masked_counts))
            yield batch

    @property
    def unigram_entropy(self) -> float:
        """Entropy of the masked tokens' distribution, in nats."""
        frequencies = self.masked_counts[self.masked_counts > 0] / self.masked_counts.sum()
        return float(-(frequencies * np.log(frequencies)).sum())
