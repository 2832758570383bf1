"""Pre-training: text or prepared documents in, a run directory out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.directory import RunContents, RunDirectory
from albert_tf.checkpoints.growth import grown_from
from albert_tf.checkpoints.models import build_model
from albert_tf.conversion.start import run_at, start_of_run
from albert_tf.data import naming_damaged_files
from albert_tf.optimization import recipe_optimizer
from albert_tf.pretraining.budget import Size, as_begun, measured
from albert_tf.pretraining.cooccurrence import MAX_COUNTED, counts, first_weights
from albert_tf.pretraining.corpus import Corpus
from albert_tf.pretraining.objective import pretraining_metrics, pretraining_objective
from albert_tf.pretraining.phases import check_size, pretraining_phases
from albert_tf.pretraining.settings import Pretraining, check_same_run, read_recipe
from albert_tf.tokenizers.kinds import open_tokenizer
from albert_tf.training.phases import Training, built_optimizer, is_fused, model_options
from albert_tf.training.trainer import Report, train, training_scope
from albert_tf.utils.records import flat

# The first value of a variable by its name; None where it begins at random.
FirstValues = Callable[[str], np.ndarray | None]


@naming_damaged_files()
def pretrain(settings: Pretraining, report: Report = logging.info) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: the settings of the run.
      report: called with lines about the start: where weights come from, or that a checkpoint is damaged.
    Raises:
      ValueError: settings contradict each other, or those of the run that is there; a file is damaged.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    run, execution = RunDirectory(settings.output, "output"), settings.execution
    with training_scope(run, execution, report):
        # Opened once: the vocabulary, the text, the run whose weights this one begins with.
        vocabulary = open_tokenizer(settings.vocabulary).vocabulary
        tokenizer = {"lowercase": settings.lowercase, "strip_accents": settings.strip_accents}
        task = {"model": "pretrainer", "sentence_objective": settings.recipe.examples.sentence_objective}
        corpus = Corpus(settings.train, settings.eval, {"vocabulary": settings.vocabulary, **tokenizer})
        origin = None
        if settings.init_from is not None and not run.steps():
            origin = run_at(settings.init_from)
            start_of_run(origin, settings.vocabulary, tokenizer)  # which refuses another text

        # Checked before much is read: the network and its recipe, or those that a budget may choose.
        sizes = [Size(config=settings.config, recipe=settings.recipe)]
        if settings.budget:
            sizes = list(settings.budget.sizes)
            if run.is_begun:
                sizes = [as_begun(sizes, run.config).with_steps(read_recipe(run).steps)]
        sizes = [size.with_vocabulary(len(vocabulary)) for size in sizes]
        growths = {}
        for size in sizes:
            check_size(size, execution)
            if origin is not None:
                growths[size.config] = grown_from(
                    origin, size.config, task, extend_positions=settings.extend_positions
                )

        if run.is_begun:
            corpus = corpus.holding_out_as(run.recipe)
        else:
            corpus = corpus.holding_out(settings.recipe.examples)

        # A model, its optimizer and its phases.
        def training(size: Size, read: FirstValues | None = None) -> Training:
            config, recipe = size.config, size.recipe
            keras.utils.set_random_seed(settings.seed)
            model = build_model(config, task, read=read, **model_options(execution))
            optimizer = recipe_optimizer(recipe.optimizer, recipe, recipe.steps, recipe.warmup_steps)
            trained = 0 if settings.init_from is None else config.max_position_embeddings
            return Training(
                model=model,
                optimizer=built_optimizer(optimizer, model, execution),
                objective=pretraining_objective(task["sentence_objective"], fused=is_fused(execution)),
                phases=pretraining_phases(model, recipe, corpus, execution, trained),
                metrics=pretraining_metrics,
                seed=settings.seed,
                execution=execution,
                loop=settings.loop,
            )

        size = sizes[0]
        if settings.budget and not run.is_begun:
            size = measured(settings.budget.seconds, sizes, training, report)

        # What recipe.json says of it, and what a run that is there must agree with.
        record = {
            **flat(size.recipe),
            **corpus.record(),
            **settings.run_record(run),
            "vocabulary": vocabulary.fingerprint,
            "extend_positions": settings.extend_positions,
            "budget": settings.budget and settings.budget.seconds,
        }
        if run.is_begun:
            check_same_run(run, {**size.config.to_dict(), **task, **tokenizer, **record}, size.recipe)

        # The first weights of a new run; on every host.
        first_values = None
        if growth := growths.get(size.config):
            first_values = growth.read
            for line in growth.listing():
                report(line)
        elif size.recipe.word_embeddings == "cooccurrence" and not run.steps():
            counted = counts(corpus.training_tokens(MAX_COUNTED), len(vocabulary))
            first_values = first_weights(counted, size.config)
            report(f"word embeddings from the co-occurrence of {counted.pieces.sum():,} pieces")
        train(
            run,
            training(size, first_values),
            RunContents(size.config, task, settings.vocabulary, tokenizer, record),
            report,
            note=f"; held out: {corpus.held_out.what}" if corpus.held_out else "",
        )
