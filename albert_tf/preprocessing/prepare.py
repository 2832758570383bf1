"""Text of any size to prepared documents or examples, on Apache Beam: here, on Spark, Flink or Dataflow.

Two tasks, and nothing but counts goes through Beam between them: each slice of the input becomes a spill of
tokenised documents, sorted by shard and hash, in the output folder; each shard is merged from all
spills. What a task has finished lies under its final name, so that a second start does only what is missing.

Note: Beam's own GroupByKey in place of the spills is as fast, but Beam's runner for one machine holds the
whole corpus in memory for it (200 MB of text on two cores: 57 s and 1,288 MB, by spills 63 s and 934 MB),
and a killed process would tokenise everything again.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
from absl import logging
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner

from albert_tf.preprocessing.plan import (
    Preparation,
    PreparationFailed,
    begin,
    clear,
    finish,
    finished_tasks,
    shown,
)
from albert_tf.preprocessing.reading import file_slices
from albert_tf.preprocessing.runners import pipeline_options, runner_of
from albert_tf.preprocessing.spills import example_maker, spill_name, write_shard, write_spill
from albert_tf.raw_text.identity import file_identities
from albert_tf.raw_text.paths import Paths, input_files
from albert_tf.tokenizer_settings import TOKENIZER_DEFAULTS
from albert_tf.tokenizers.kinds import saved_tokenizer
from albert_tf.utils.files import address_of, check_place, sole_use

_SECONDS_BETWEEN_REPORTS = 5.0
_ERROR_CLASS = re.compile(r"^(\w+\.)+\w+: ")  # at the beginning of a traceback's last line


def prepare(
    inputs: Paths,
    output: str | os.PathLike,
    vocabulary: str | os.PathLike,
    beam_options: Sequence[str] = (),
    report: Callable[[str], None] = logging.info,
    **settings: Any,
) -> dict[str, Any]:
    """Tokenises text into a folder of shards that `pretraining_dataset` reads.

    The same settings give the same files whatever the number of workers. A worker holds the tokens of a
    slice of the text (32 MiB, but the whole of a .gz, which can be read from its beginning only) or of a
    shard in memory: divide large .gz files, and name more shards for a large corpus.

    Args:
      inputs: text files, also .gz: a path, a glob or a list, on any filesystem that TensorFlow reads.
      output: the folder to write, on any filesystem that TensorFlow writes.
      vocabulary: a tokenizer's, such as a SentencePiece model.
      beam_options: flags of Beam such as `--runner=SparkRunner`; without a runner, or with DirectRunner, the
        work is done in this process, and with `--direct_running_mode=multi_processing --direct_num_workers=4`
        in several.
      report: called with lines about the progress.
      **settings: of `PreparationSettings`, and `lowercase` and `strip_accents`: where not given, as the
        vocabulary remembers them.
    Returns:
      The content of stats.json.
    Raises:
      FileNotFoundError: an input or the vocabulary does not exist.
      ValueError: a setting or flag is impossible, or the folder holds a corpus with other settings.
      FileExistsError: the folder holds the input, or files that `prepare` has not written.
      BlockingIOError: another process prepares text in the folder.
      PreparationFailed: a task failed, for example on a damaged file, or the files hold no documents.
    """
    options = pipeline_options(beam_options)
    runner = runner_of(options)
    asked = {name: settings.pop(name) for name in TOKENIZER_DEFAULTS if name in settings}
    files = input_files(inputs)
    identities = file_identities(files)
    plan = Preparation(
        files=tuple((file, known["bytes"]) for file, known in zip(files, identities, strict=True)),
        identities=tuple(identities),
        output=os.fspath(output),
        tokenizer=saved_tokenizer(vocabulary, **asked),
        **settings,
    )
    if plan.format == "examples":
        example_maker(plan)  # which checks the sizes, before hours of work
    with _sole_output(plan.output):
        return _prepare(plan, options, runner, report)


@contextmanager
def _sole_output(output: str) -> Iterator[None]:
    """Makes the output folder, and keeps other processes out of it while the block runs."""
    if address_of(output) is not None:
        yield
        return
    folder = Path(output)
    check_place(folder, is_folder=True)
    folder.mkdir(parents=True, exist_ok=True)
    with sole_use(folder):
        yield


def _prepare(
    plan: Preparation, options: PipelineOptions, runner: PipelineRunner, report: Callable[[str], None]
) -> dict[str, Any]:
    """The work of `prepare`, in a folder that nobody else uses."""
    if (stats := begin(plan)) is not None:
        report(f"{plan.output} is finished already, with these settings: nothing to do")
        return stats
    try:
        with _progress(plan, report):
            _run(plan, options, runner)
    except Exception as error:
        goes_on = "; the same command goes on from what is done" if finished_tasks(plan) else ""
        if not goes_on:
            clear(plan)
        raise PreparationFailed(_reason(error) + goes_on) from error
    stats = finish(plan)
    report(shown(stats["counts"]))
    return stats


def _reason(error: Exception) -> str:
    """The last line of an error: Beam hands on tracebacks of other processes as text."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return _ERROR_CLASS.sub("", lines[-1].strip().partition(" [while running ")[0])


def _run(plan: Preparation, options: PipelineOptions, runner: PipelineRunner) -> None:
    """The Beam pipeline, to its end."""
    slices, finished = file_slices(plan.files), finished_tasks(plan)
    missing_slices = [part for part in slices if spill_name(part.number) not in finished]
    missing_shards = [name for name in plan.shard_names if name not in finished]
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        spills = (
            pipeline
            | "Slices" >> beam.Create(missing_slices)
            | "SpreadSlices" >> beam.Reshuffle()
            | "WriteSpills" >> beam.Map(write_spill, plan)
            | "CountSpills" >> beam.CombineGlobally(beam.combiners.CountCombineFn())
        )
        _ = (
            pipeline
            | "Shards" >> beam.Create(missing_shards)
            | "SpreadShards" >> beam.Reshuffle()
            | "WriteShards" >> beam.Map(write_shard, plan, len(slices), beam.pvalue.AsSingleton(spills))
        )


@contextmanager
def _progress(plan: Preparation, report: Callable[[str], None]) -> Iterator[None]:
    """Reports every few seconds how many tasks have finished, on whatever machine, while the block runs."""
    slices, shards, is_over = len(file_slices(plan.files)), set(plan.shard_names), threading.Event()

    def watch() -> None:
        while not is_over.wait(_SECONDS_BETWEEN_REPORTS):
            finished = finished_tasks(plan)
            read, written = len(finished - shards), len(finished & shards)
            report(f"{read} of {slices} slices read, {written} of {len(shards)} shards written")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
