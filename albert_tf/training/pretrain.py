"""Pre-training: text or prepared documents in, a run directory out."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.checkpoints.files import sole_use
from albert_tf.checkpoints.run import (
    RECIPE,
    build_model,
    create_run,
    read_config,
    read_json,
    read_task,
    read_tokenizer,
    write_json,
)
from albert_tf.checkpoints.steps import newest_checkpoint, read_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.data import pretraining_dataset
from albert_tf.optimization import create_optimizer
from albert_tf.recipes import PretrainingRecipe
from albert_tf.text import Vocabulary
from albert_tf.training.evaluation import evaluator
from albert_tf.training.loop import LoopSettings, TrainingState, train
from albert_tf.training.losses import pretraining_objective
from albert_tf.training.step import training_steps

PathLike = str | os.PathLike[str]

# Keras' names for what the command line calls float32, bfloat16 and float16.
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}

# Of the documents, by their hash, where no others are given to evaluate on.
HELD_OUT_SHARE = 0.01

# What a resumed run may do differently.
_CHANGEABLE = ("steps", "eval", "precision", "versions", "command")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining:
    """One pre-training run: what it reads, what it makes, and how.

    Args:
      output: the run directory; if it holds checkpoints, training goes on from the newest.
      config: the network's shape; its vocab_size becomes the vocabulary's.
      recipe: the hyper-parameters.
      train: text files, a prepared directory or TFRecords to train on.
      eval: the same for evaluation; None holds back 1 % of the training documents.
      vocabulary: SentencePiece model.
      lowercase: whether the tokenizer folds case.
      strip_accents: whether the tokenizer drops accents.
      seed: of everything random.
      precision: "float32", "bfloat16" or "float16".
      log_every: updates between two lines of figures.
      eval_every: updates between two evaluations.
      checkpoint_every: updates between two checkpoints.
      keep: checkpoints that stay on disk.
      command: the command line, for the record.
    """

    output: PathLike
    config: AlbertConfig
    recipe: PretrainingRecipe
    train: Sequence[str]
    vocabulary: PathLike
    eval: Sequence[str] | None = None
    lowercase: bool = True
    strip_accents: bool = True
    seed: int = 0
    precision: str = "float32"
    log_every: int = LoopSettings.log_every
    eval_every: int = LoopSettings.eval_every
    checkpoint_every: int = LoopSettings.checkpoint_every
    keep: int = LoopSettings.keep
    command: str = ""

    def __post_init__(self) -> None:
        if self.precision not in POLICIES:
            raise ValueError(f"precision={self.precision!r} is none of {', '.join(POLICIES)}")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed={self.seed} must be at least 0 and below 2^31")
        _ = self.loop  # which checks its numbers

    @property
    def loop(self) -> LoopSettings:
        """When the loop logs, evaluates and saves."""
        return LoopSettings(
            steps=self.recipe.steps,
            log_every=self.log_every,
            eval_every=self.eval_every,
            checkpoint_every=self.checkpoint_every,
            keep=self.keep,
        )

    @property
    def task(self) -> dict[str, Any]:
        """What task.json says."""
        return {"model": "pretrainer", "sentence_objective": self.recipe.sentence_objective}

    @property
    def tokenizer(self) -> dict[str, Any]:
        """What tokenizer.json says."""
        return {"lowercase": self.lowercase, "strip_accents": self.strip_accents}

    def record(self) -> dict[str, Any]:
        """What recipe.json says: all that decides the weights, and by what they were made."""
        return {
            **dataclasses.asdict(self.recipe),
            "seed": self.seed,
            "train": list(self.train),
            "eval": None if self.eval is None else list(self.eval),
            "vocabulary": Vocabulary.from_file(self.vocabulary).fingerprint,
            "precision": self.precision,
            "versions": {
                name: importlib.metadata.version(name)
                for name in ("tensorflow", "tensorflow-text", "tf_keras")
            }
            | {"python": sys.version.split()[0]},
            "command": self.command,
        }


def pretrain(settings: Pretraining) -> None:
    """Trains under the current distribution strategy, or goes on where a former call stopped.

    Raises:
      ValueError: settings contradict each other, or those of the run that is there.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss is not finite.
      Preempted: SIGTERM came; the state is saved.
    """
    run = Path(settings.output)
    config = settings.config.replace(vocab_size=len(Vocabulary.from_file(settings.vocabulary)))
    if settings.recipe.seq_length > config.max_position_embeddings:
        raise ValueError(
            f"seq_length={settings.recipe.seq_length} is more than "
            f"max_position_embeddings={config.max_position_embeddings} of the config"
        )
    resumed = (run / RECIPE).exists()
    if resumed:
        _check_same_run(run, settings, config)
    # Whatever is wrong with the settings or the text shows here, before anything is written.
    optimizer = _optimizer(settings.recipe, settings.precision)
    training_data, held_out_data = batches(settings), held_out_batches(settings)
    keras.utils.set_random_seed(settings.seed)  # of the initial weights
    model = build_model(config, settings.task, dtype=POLICIES[settings.precision])
    optimizer.build(model.trainable_variables)
    if not resumed:
        create_run(run, config, settings.task, settings.vocabulary, settings.tokenizer, settings.record())
    step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    state = TrainingState(model=model, optimizer=optimizer, step=step, iterator=iter(training_data))
    with sole_use(run):
        _restore(run, state, settings)
        _train(run, state, settings, held_out_data)


def _restore(run: Path, state: TrainingState, settings: Pretraining) -> None:
    """Sets the state to that of the newest checkpoint, if there is one, and takes the settings down."""
    newest = newest_checkpoint(run)
    if newest is None:
        return
    if newest > settings.recipe.steps:
        raise ValueError(
            f"{run} is at step {newest} already: --steps {settings.recipe.steps} is less than that"
        )
    try:
        read_checkpoint(run, newest, **state.parts())
    except ValueError as error:
        raise ValueError(f"{error}. Remove ckpt-{newest}.* to go on from the checkpoint before it") from error
    write_json(run / RECIPE, settings.record())


def _train(run: Path, state: TrainingState, settings: Pretraining, held_out_data: tf.data.Dataset) -> None:
    objective = pretraining_objective(settings.recipe.sentence_objective)
    evaluate = evaluator(state.model, objective)
    train(
        run,
        state,
        settings.loop,
        training_steps(state.model, state.optimizer, objective, state.step, seed=settings.seed),
        examples_per_step=settings.recipe.batch_size,
        evaluate=lambda: evaluate(held_out_data),
    )


def batches(settings: Pretraining) -> tf.data.Dataset:
    """The batches to train on, without end."""
    hash_range = (HELD_OUT_SHARE, 1.0) if settings.eval is None else None
    return _dataset(settings, settings.train, hash_range=hash_range, seed=settings.seed)


def held_out_batches(settings: Pretraining) -> tf.data.Dataset:
    """The batches to evaluate on: the same ones each time, whatever the run's seed."""
    once = {"seed": 0, "shuffle": False, "repeat": False}
    if settings.eval is not None:
        return _dataset(settings, settings.eval, hash_range=None, **once)
    try:
        return _dataset(settings, settings.train, hash_range=(0.0, HELD_OUT_SHARE), **once)
    except ValueError as error:
        raise ValueError(
            f"of the training documents {HELD_OUT_SHARE:.0%} is held out, and that is not possible here "
            f"({error}): name other text by --eval"
        ) from error


def _dataset(settings: Pretraining, inputs: Sequence[str], **arguments: Any) -> tf.data.Dataset:
    recipe = settings.recipe
    return pretraining_dataset(
        inputs,
        vocabulary=settings.vocabulary,
        batch_size=recipe.batch_size,
        seq_length=recipe.seq_length,
        max_predictions=recipe.max_predictions,
        sentence_objective=recipe.sentence_objective,
        short_seq_prob=recipe.short_seq_prob,
        masked_lm_prob=recipe.masked_lm_prob,
        max_ngram=recipe.max_ngram,
        whole_word=recipe.whole_word,
        **settings.tokenizer,
        **arguments,
    )


def _optimizer(recipe: PretrainingRecipe, precision: str) -> keras.optimizers.Optimizer:
    optimizer = create_optimizer(
        recipe.optimizer,
        init_lr=recipe.learning_rate,
        num_train_steps=recipe.steps,
        num_warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        clip_norm=recipe.clip_norm,
        beta_1=recipe.beta_1,
        beta_2=recipe.beta_2,
        epsilon=recipe.epsilon,
    )
    # float16's smallest gradients would be 0 without a scale.
    return keras.mixed_precision.LossScaleOptimizer(optimizer) if precision == "float16" else optimizer


def _check_same_run(run: Path, settings: Pretraining, config: AlbertConfig) -> None:
    """ValueError, with the fields that differ, unless the settings are those of the run that is there."""
    there = {**read_config(run).to_dict(), **read_task(run), **read_tokenizer(run), **read_json(run / RECIPE)}
    asked = {**config.to_dict(), **settings.task, **settings.tokenizer, **settings.record()}
    differing = [
        f"{name} is {there.get(name)!r} there and {value!r} here"
        for name, value in asked.items()
        if name not in _CHANGEABLE and there.get(name) != value
    ]
    if differing:
        raise ValueError(
            f"{run} is a run with other settings: {'; '.join(differing)}. Name another --output, or resume "
            "with the settings that are there"
        )
