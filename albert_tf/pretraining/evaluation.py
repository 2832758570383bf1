"""Losses and accuracies of a pre-trained run on text that it has not seen."""

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
from albert_tf.data.sources import to_evaluate_on
from albert_tf.data.tfrecords import naming_damaged_files
from albert_tf.errors import InputError, Missing, check_range
from albert_tf.models.task_models import AlbertPretrainer
from albert_tf.pretraining.loss import pretraining_loss_fn, pretraining_metrics
from albert_tf.pretraining.pretraining_settings import read_recipe
from albert_tf.recipes import ExampleSettings
from albert_tf.runs.load_save import check_finite, load
from albert_tf.runs.run_directory import open_run
from albert_tf.settings import flatten_record, replace_fields
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS
from albert_tf.training.metrics_logger import evaluator
from albert_tf.training.train_step import Batch


@naming_damaged_files()
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
    """Losses and accuracies of a run; the same examples each time.

    Runs that were trained on other lengths or masks compare where all are asked the same.

    Args:
      path: the directory of a pre-trained run, with its vocabulary.
      inputs: what `pretraining_dataset` reads; a folder of `prepare` stands for what it holds out.
      batch_size: examples at a time; it decides about memory, not about the figures.
      max_examples: stop after so many; None: all.
      passes: times to go over the text, with other pairs and masks each time: a short text has few masks.
      step: of the checkpoint; None: the newest.
      xla: as `Execution` takes it.
      **changes: of ExampleSettings, such as `masked_lm_prob`; what is left out is as the run was trained or,
        where it does not say (a converted run), the paper's.
    Returns:
      `step`, `examples` and `seq_length`: what was evaluated; `eval_loss`, `eval_mlm_loss` (nats),
      `eval_mlm_accuracy`, the same of the sentence objective, `eval_mlm_perplexity`, and
      `eval_mlm_unigram_entropy`: the loss (nats) of always predicting the masked tokens' own frequencies,
      which a model has to get below to know anything of context.
    Raises:
      FileNotFoundError: the run, its vocabulary or an input is missing.
      ValueError: the run is not pre-trained, there is nothing to evaluate on, or a file is damaged.
    """
    run = open_run(path)
    step = max(run.steps(), default=None) if step is None else step
    model = load(run, step)
    if not isinstance(model, AlbertPretrainer):
        raise InputError(f"{run} holds no pre-training heads, it is of an {type(model).__name__}")
    check_finite(model, run, step)
    if run.vocabulary is None:
        raise Missing(f"{run} has no vocabulary: copy it there")
    check_range("passes", passes, at_least=1)
    if "seq_length" in changes or "masked_lm_prob" in changes:
        changes["max_predictions"] = None
    changes["sentence_objective"] = model.sentence_objective
    settings = replace_fields(read_recipe(run).examples, **changes)
    if not settings.masked_lm_prob:
        raise InputError("masked_lm_prob=0: no token is masked, there is nothing to tell: set masked_lm_prob")
    model.config.check_length(settings.seq_length, f"{run} has no more positions")
    # The vocabulary in the run remembers its further settings.
    tokenizer = {name: run.tokenizer[name] for name in TOKENIZER_DEFAULTS}
    options: dict[str, Any] = {**flatten_record(settings), **tokenizer, "shuffle": False, "repeat": False}
    made_with = (to_evaluate_on(inputs), run.vocabulary, batch_size)
    once = functools.partial(pretraining_dataset, *made_with, **options)
    dataset = functools.reduce(tf.data.Dataset.concatenate, (once(seed=seed) for seed in range(passes)))
    if max_examples is not None:
        check_range("max_examples", max_examples, at_least=1)
        dataset = first_examples(dataset, max_examples, batch_size, settings)
    examples = EvaluationExamples(model.config.vocab_size)
    evaluate = evaluator(model, pretraining_loss_fn(model.sentence_objective), xla)
    terms = evaluate(examples.of(dataset))
    return {
        "step": step,
        "examples": examples.number,
        "seq_length": settings.seq_length,
        **{f"eval_{name}": value for name, value in pretraining_metrics(terms).items()},
        "eval_mlm_unigram_entropy": examples.unigram_entropy,
    }


def first_examples(
    dataset: tf.data.Dataset, count: int, batch_size: int, settings: ExampleSettings
) -> tf.data.Dataset:
    """The batches of a data set's first examples; rows that fill a batch count for none."""
    # Of stored examples, P is that of their file.
    settings = replace_fields(settings, max_predictions=dataset.element_spec[MLM_IDS].shape[1])
    rows = dataset.unbatch().filter(lambda row: row[INPUT_MASK][0] > 0).take(count).batch(batch_size)
    return rows.map(lambda rows: fill_batch(rows, batch_size, settings))


class EvaluationExamples:
    """Counts what is evaluated on, while it is.

    Attributes:
      number: of examples, without the rows that fill the last batch.
      masked: how often each token was masked, int64 [V].
    """

    def __init__(self, vocab_size: int):
        self.number = 0
        self.masked = np.zeros([vocab_size], np.int64)

    def of(self, dataset: Iterable[Batch]) -> Iterator[Batch]:
        """The batches themselves, each counted."""
        for batch in dataset:
            self.number += int(np.asarray(batch[INPUT_MASK])[:, 0].sum())
            found = np.asarray(batch[MLM_IDS])[np.asarray(batch[MLM_WEIGHTS]) > 0]
            self.masked += np.bincount(found, minlength=len(self.masked))
            yield batch

    @property
    def unigram_entropy(self) -> float:
        """Of the masked tokens' own distribution, in nats."""
        shares = self.masked[self.masked > 0] / self.masked.sum()
        return float(-(shares * np.log(shares)).sum())
