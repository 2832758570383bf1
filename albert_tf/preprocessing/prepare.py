"""Text of any size to prepared documents or examples, on Apache Beam: here, on Spark, Flink or Dataflow.

Two tasks, and nothing but counts goes through Beam between them: each slice of the input becomes a spill of
tokenised documents, sorted by shard and hash, in the output folder; each shard is merged from all
spills. What a task has finished lies under its final name, so that a second start does only what is missing.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
import tensorflow as tf
from absl import logging
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner

from albert_tf.data.prepared import EVAL, read_stats
from albert_tf.preprocessing.plan import (
    Preparation,
    PreparationFailed,
    begin,
    clear,
    finish,
    finished_tasks,
    shown,
    state_of,
)
from albert_tf.preprocessing.reading import FileSlice, check_beginning, file_slices
from albert_tf.preprocessing.runners import pipeline_options, quiet_beam, runner_of
from albert_tf.preprocessing.spills import write_shard, write_spill
from albert_tf.preprocessing.stored_examples import example_maker
from albert_tf.raw_text.identity import file_identities
from albert_tf.raw_text.paths import CONCURRENT_REQUESTS, Paths, input_files
from albert_tf.tokenizer_settings import TOKENIZER_DEFAULTS
from albert_tf.tokenizers.kinds import saved_tokenizer

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
      vocabulary: the SentencePiece model.
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
      PreparationFailed: a task failed, for example on a damaged file, or the files hold no documents.
    """
    options = pipeline_options(beam_options)
    runner = runner_of(options)
    asked = {name: settings.pop(name) for name in TOKENIZER_DEFAULTS if name in settings}
    files = input_files(inputs)
    plan = Preparation(
        files=_sized(files),
        identities=tuple(file_identities(files)),
        output=os.fspath(output),
        tokenizer=saved_tokenizer(vocabulary, **asked),
        **settings,
    )
    # Before hours of work:
    if plan.format == "examples":
        example_maker(plan)  # which checks the sizes
    _check_beginnings(plan)
    state = state_of(plan)
    if state == "done":
        report(f"{plan.output} is finished already, with these settings: nothing to do")
        return read_stats(plan.output)
    if state == "has lost shards":
        report(f"{plan.output} was finished, but has lost shards since: starts over")
    begin(plan, state)
    try:
        with quiet_beam(runner), _Reports(plan, report):
            _run(plan, options, runner)
    except Exception as error:
        goes_on = "; the same command goes on from what is done" if finished_tasks(plan) else ""
        if not goes_on:
            clear(plan)
        raise PreparationFailed(_reason(error) + goes_on) from error
    stats = finish(plan)
    report(shown(stats["counts"]))
    eval_shards = [shard for name, shard in stats["shards"].items() if name.startswith(f"{EVAL}-")]
    if plan.eval_share and not any(shard["documents"] for shard in eval_shards):
        report(
            f"--eval_share {plan.eval_share} of {stats['counts']['documents']:,} documents, by their hashes, "
            "is none: `pretrain` will hold out a part of this text itself"
        )
    return stats


def _sized(files: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Path and size in bytes of each file."""
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        sizes = pool.map(lambda file: tf.io.gfile.stat(file).length, files)
        return tuple(zip(files, sizes, strict=True))


def _check_beginnings(plan: Preparation) -> None:
    """InputError unless all files begin like text in the input format."""

    def check(file: str) -> None:
        with tf.io.gfile.GFile(file, "rb") as stream:
            check_beginning(file, stream, plan.input_format)

    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        for _ in pool.map(check, [file for file, _ in plan.files]):
            pass


def _reason(error: Exception) -> str:
    """The last line of an error: Beam hands on tracebacks of other processes as text."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return _ERROR_CLASS.sub("", lines[-1].strip().partition(" [while running ")[0])


def _run(plan: Preparation, options: PipelineOptions, runner: PipelineRunner) -> None:
    """The Beam pipeline, to its end."""
    all_slices = file_slices(plan.files)
    finished = finished_tasks(plan)
    missing_slices = [s for s in all_slices if f"run-{s.number:06d}.json" not in finished]
    missing_shards = [name for name in plan.shard_names if f"{name}.json" not in finished]
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        spills = (
            pipeline
            | "Slices" >> beam.Create(missing_slices)
            | "SpreadSlices" >> beam.Reshuffle()
            | "WriteSpills" >> beam.Map(_write_spill, plan)
            | "CountSpills" >> beam.CombineGlobally(beam.combiners.CountCombineFn())
        )
        _ = (
            pipeline
            | "Shards" >> beam.Create(missing_shards)
            | "SpreadShards" >> beam.Reshuffle()
            | "WriteShards" >> beam.Map(_write_shard, len(all_slices), plan, beam.pvalue.AsSingleton(spills))
        )


def _write_spill(file_slice: FileSlice, plan: Preparation) -> int:
    """The first task."""
    with tf.io.gfile.GFile(file_slice.file, "rb") as stream:
        write_spill(file_slice, stream, plan)
    return file_slice.number


def _write_shard(name: str, spills: int, plan: Preparation, spills_written: int) -> str:
    """The second task; its last argument lets it wait for the spills."""
    write_shard(name, spills, plan)
    return name


class _Reports:
    """A line about the progress every few seconds, from the files that tasks have finished anywhere."""

    def __init__(self, plan: Preparation, report: Callable[[str], None]):
        self._plan = plan
        self._report = report
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()

    def _watch(self) -> None:
        slices, shards = len(file_slices(self._plan.files)), len(self._plan.shard_names)
        while not self._finished.wait(_SECONDS_BETWEEN_REPORTS):
            names = finished_tasks(self._plan)
            read = sum(name.startswith("run-") for name in names)
            written = sum(f"{name}.json" in names for name in self._plan.shard_names)
            self._report(f"{read} of {slices} slices read, {written} of {shards} shards written")
