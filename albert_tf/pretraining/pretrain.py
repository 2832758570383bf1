"""Pre-training: from text or prepared documents to a run directory."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.conversion.init_from import resolve_run
from albert_tf.data.sources import check_makes_examples
from albert_tf.data.tfrecords import name_damaged_files
from albert_tf.errors import InputError, add_place
from albert_tf.models.loss_sums import LossFn
from albert_tf.models.memory import TRAINING_COPIES, check_memory
from albert_tf.models.sharing import with_num_layers
from albert_tf.optimization import recipe_optimizer
from albert_tf.pretraining.budget import ModelSize, choose_size, size_of_run
from albert_tf.pretraining.cooccurrence import MAX_COUNTED, count_cooccurrences, weights_from_counts
from albert_tf.pretraining.corpus import Corpus
from albert_tf.pretraining.loss import pretraining_loss_fn, pretraining_metrics
from albert_tf.pretraining.pretraining_settings import (
    EVAL_SINCE,
    TRAINED_POSITIONS,
    Pretraining,
    check_same_run,
    evaluated_since,
    positions_before,
    read_recipe,
    text_record,
    trained_positions,
)
from albert_tf.recipes import PretrainingRecipe
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import LOWEST_LOSS, RunContents, RunDirectory
from albert_tf.runs.warm_start import WarmStart, warm_start_from
from albert_tf.settings import flatten_record
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import resolve_settings
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.metrics_logger import make_evaluator
from albert_tf.training.stages import Training, TrainingStage, build_optimizer, is_fused, model_options
from albert_tf.training.trainer import LogFunction, train, training_scope

# The initial value of a variable by its name. None: a random value.
InitialValues = Callable[[str], np.ndarray | None]

# Turns the losses of pre-training into the losses of a run. It is called in the scope of the run's strategy.
ExtendLosses = Callable[[LossFn], LossFn]


@name_damaged_files()
def pretrain(
    settings: Pretraining,
    report: LogFunction = logging.info,
    extend: ExtendLosses = lambda losses: losses,
    given: Collection[str] = (),
) -> None:
    """Pre-trains a model, or resumes an existing run.

    Args:
      settings: settings of the run.
      report: called with log lines about the start, such as where the initial weights come from.
      extend: adds losses, such as the teacher's in distillation.
      given: settings of examples that the user named. They are an error if the text is finished examples.
    Raises:
      InputError: settings contradict each other or the existing run, or a file is damaged.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    run, compute = RunDirectory(settings.output, "output"), settings.compute
    tokenizer = {"lowercase": settings.lowercase, "strip_accents": settings.strip_accents}
    task = _task(settings.recipe)
    with training_scope(run, compute, report):
        # A resumed run has its weights already.
        origin = None
        if settings.init_from is not None and not run.steps():
            origin = resolve_run(settings.init_from, settings.vocabulary)
        if origin is not None:  # raises early if it does not fit
            made_with = resolve_settings(settings.vocabulary, tokenizer)
            origin.resolve_vocabulary(settings.vocabulary, made_with)
        opened = open_tokenizer(settings.vocabulary, **tokenizer)
        check_makes_examples(settings.train, opened, given)
        vocabulary = opened.vocabulary
        _report_padding_position(settings.config, vocabulary.special_ids.padding, report)
        sizes = _candidate_sizes(settings, run, len(vocabulary))
        warm_starts = {}
        for size in sizes:  # raises before the text is read
            check_size(size, compute)
            if origin is not None:
                warm_starts[size.config] = warm_start_from(
                    origin,
                    size.config,
                    task,
                    extend_positions=settings.extend_positions,
                    trained_positions=trained_positions(origin),
                )
        positions = positions_before(run, origin)
        corpus = Corpus(settings.train, settings.eval, {"vocabulary": settings.vocabulary, **tokenizer})
        corpus = corpus.with_held_out_split(settings.recipe.examples, text_record(run))
        make_training = _TrainingFactory(settings, corpus, extend, positions).make_training

        size = sizes[0]
        if settings.budget and not run.has_recipe:
            size = choose_size(settings.budget.seconds, sizes, make_training, report)
        record = {
            **_record(settings, run, size.recipe, corpus),
            "vocabulary": vocabulary.fingerprint,
            TRAINED_POSITIONS: positions,
        }
        if run.has_recipe:
            run.check_vocabulary(settings.vocabulary, vocabulary.fingerprint)
            check_same_run(run, {**size.config.to_dict(), **task, **tokenizer, **record}, size.recipe)

        initial_values = None
        if not run.steps():
            initial_values = _initial_values(size, warm_starts.get(size.config), corpus, report)
        contents = RunContents(size.config, task, settings.vocabulary, tokenizer, record)
        note = f"; held out: {corpus.held_out.what}" if corpus.held_out else ""
        best = LOWEST_LOSS._replace(after=record.get(EVAL_SINCE, -1))
        training = dataclasses.replace(make_training(size, initial_values), best=best)
        train(run, training, contents, report, note)


def _report_padding_position(config: AlbertConfig, padding: int, report: LogFunction) -> None:
    """Reports a padding id that does not fit the positions of RoBERTa's code."""
    if config.position_offset and padding != config.position_offset - 1:
        report(
            f"padding has id {padding} in the vocabulary, and RoBERTa's code counts positions by id "
            f"{config.position_offset - 1}, as byte-level BPE has it: `convert` will refuse this run"
        )


def _candidate_sizes(settings: Pretraining, run: RunDirectory, vocab_size: int) -> list[ModelSize]:
    """The sizes to choose from: those of a budget, or the one of an existing run or of the settings."""
    sizes: Sequence[ModelSize] = [ModelSize(config=settings.config, recipe=settings.recipe)]
    if settings.budget:
        sizes = settings.budget.sizes
        if run.has_recipe:
            sizes = [size_of_run(sizes, run.config).with_steps(read_recipe(run).steps)]
    return [dataclasses.replace(size, config=size.config.replace(vocab_size=vocab_size)) for size in sizes]


def _record(
    settings: Pretraining, run: RunDirectory, recipe: PretrainingRecipe, corpus: Corpus
) -> dict[str, Any]:
    """The entries of recipe.json about the settings and the text."""
    corpus_record = corpus.record()
    for name in corpus.shared_files(corpus_record) if corpus.eval is not None else ():
        logging.warning("%s is in `train`, too: the evaluation is of text that the network learns", name)
    since = evaluated_since(run, corpus_record["eval_files"])
    return {
        **flatten_record(recipe),
        **corpus_record,
        **settings.run_record(run),
        "extend_positions": settings.extend_positions,
        "budget": settings.budget and settings.budget.seconds,
        **({EVAL_SINCE: since} if since >= 0 else {}),
    }


def _initial_values(
    size: ModelSize, warm_start: WarmStart | None, corpus: Corpus, report: LogFunction
) -> InitialValues | None:
    """The weights of another run, or word embeddings from counts. None: all are random."""
    if warm_start is not None:
        for line in warm_start.listing():
            report(line)
        return warm_start.read
    if size.recipe.word_embeddings != "cooccurrence":
        return None
    counts = count_cooccurrences(corpus.training_tokens(MAX_COUNTED), size.config.vocab_size)
    report(f"word embeddings from the co-occurrence of {counts.tokens.sum():,} pieces")
    return weights_from_counts(counts, size.config)


def check_size(size: ModelSize, compute: ComputeConfig) -> None:
    """Raises InputError unless this machine can train a network by its recipe, whole at the end."""
    config, recipe = size.config, size.recipe
    check_memory(config, TRAINING_COPIES)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    for number, stage in enumerate(recipe.all_stages):
        stage_recipe = recipe.for_stage(stage)
        with add_place(f"stages[{number}]") if recipe.stages else contextlib.nullcontext():
            depth = with_num_layers(config, stage.num_hidden_layers).num_hidden_layers
            config.check_length(stage_recipe.examples.seq_length)
            if stage == recipe.all_stages[-1] and depth != config.num_hidden_layers:
                raise InputError(
                    f"the last stage has num_hidden_layers={depth}, and the config "
                    f"{config.num_hidden_layers}: leave it out there, so that the run ends with its network"
                )
            compute.check_batch_size(stage_recipe.batch_size, replicas)


def _task(recipe: PretrainingRecipe) -> dict[str, Any]:
    """The entries of task.json."""
    return {"model": "pretrainer", "sentence_objective": recipe.examples.sentence_objective}


@dataclasses.dataclass(frozen=True)
class _TrainingFactory:
    """Creates a model with its optimizer and its stages, for any size of a network.

    Args:
      settings: settings of the run. The size decides config and recipe.
      corpus: text to train and to evaluate on.
      extend: adds losses.
      trained_positions: number of positions that were trained before the run.
    """

    settings: Pretraining
    corpus: Corpus
    extend: ExtendLosses
    trained_positions: int

    def make_training(self, size: ModelSize, initial_values: InitialValues | None = None) -> Training:
        """Creates the training of a network of a size. Without initial values its weights are random."""
        settings, compute, recipe = self.settings, self.settings.compute, size.recipe
        keras.utils.set_random_seed(settings.seed)
        model = build_model(size.config, _task(recipe), read=initial_values, **model_options(compute))
        optimizer = recipe_optimizer(recipe.optimizer, recipe, recipe.steps, recipe.warmup_steps)
        loss_fn = self._loss_fn(recipe, fused=is_fused(compute))
        if "mlm" in loss_fn.names and not recipe.examples.masked_lm_prob:
            raise InputError(
                "masked_lm_prob=0: no token is masked, there is nothing to learn: set masked_lm_prob"
            )
        return Training(
            model=model,
            optimizer=build_optimizer(optimizer, model, compute),
            loss_fn=loss_fn,
            stages=self._make_stages(model, recipe),
            metrics=functools.partial(pretraining_metrics, loss_weights=loss_fn.loss_weights),
            seed=settings.seed,
            compute=compute,
            loop=settings.loop,
        )

    def _loss_fn(self, recipe: PretrainingRecipe, *, fused: bool = False) -> LossFn:
        return self.extend(pretraining_loss_fn(recipe.examples.sentence_objective, fused=fused))

    def _make_stages(self, model: keras.Model, recipe: PretrainingRecipe) -> list[TrainingStage]:
        """Creates the stages of a recipe. Each is evaluated with the depth and the length that it trains.

        When a stage first uses longer sequences, its new positions start as copies of the trained positions.
        """
        loss_fn, stages, trained = self._loss_fn(recipe), list[TrainingStage](), self.trained_positions
        for stage, end in zip(recipe.all_stages, recipe.stage_ends, strict=True):
            stage_recipe = recipe.for_stage(stage)
            length, batch_size = stage_recipe.examples.seq_length, stage_recipe.batch_size
            depth = stage.num_hidden_layers or model.config.num_hidden_layers
            shape = {"num_hidden_layers": depth, "seq_length": length, "batch_size": batch_size}
            repeat_positions = functools.partial(model.encoder.embeddings.repeat_positions, trained, length)
            made = TrainingStage(
                end=end,
                batch_size=batch_size,
                seq_length=length,
                batches=functools.partial(
                    self.corpus.training_batches,
                    stage_recipe,
                    data_service=self.settings.compute.data_service,
                ),
                evaluate=self._make_evaluate(model, depth, loss_fn, stage_recipe),
                arguments={"num_hidden_layers": depth},
                description=shape if recipe.stages else {},
                on_start=repeat_positions if 0 < trained < length else None,
            )
            stages.append(made)
            trained = max(trained, length)
        return stages

    def _make_evaluate(
        self, model: keras.Model, depth: int, loss_fn: LossFn, recipe: PretrainingRecipe
    ) -> Callable[[], dict[str, float]]:
        """Creates the function that computes the metrics of held-out text, for the recipe of a stage."""
        compute = self.settings.compute
        evaluate = make_evaluator(functools.partial(model, num_hidden_layers=depth), loss_fn, compute.xla)
        rows = compute.microbatch_rows(recipe.batch_size)
        batches = self.corpus.evaluation_batches(recipe.examples, rows)
        return lambda: pretraining_metrics(evaluate(batches), loss_fn.loss_weights)
