"""Text of any size to prepared documents or examples, on Apache Beam: here, on Spark, Flink or Dataflow.

Two tasks, and nothing but counts goes through Beam between them: each slice of the input becomes a spill of
tokenised documents, sorted by shard and hash, in the output folder; each shard is merged from all
spills. What a task has finished lies under its final name, so that a second start does only what is missing.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
import tensorflow as tf
from absl import logging
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner

from albert_tf.corpus.beam_files import open_file, sized_files
from albert_tf.corpus.plan import (
    Preparation,
    PreparationFailed,
    begin,
    finish,
    has_finished_tasks,
    nothing_left_of_a_failure,
    shown,
    state_of,
)
from albert_tf.corpus.reading import FileSlice, check_beginning, file_slices
from albert_tf.corpus.runners import pipeline_options, quiet_beam, runner_of
from albert_tf.corpus.spills import write_shard, write_spill
from albert_tf.corpus.stored_examples import example_maker
from albert_tf.corpus.whole_files import read_json
from albert_tf.data.prepared import read_stats
from albert_tf.text.raw.paths import QUESTIONS_AT_ONCE, Paths
from albert_tf.text.vocabulary import Vocabulary
from albert_tf.tokenizer_settings import TOKENIZER_DEFAULTS, resolved_settings

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
      inputs: text files, also .gz: a path, a glob or a list, on any filesystem that TensorFlow or Beam reads.
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
    FileSystems.set_options(options)  # the address of a Hadoop cluster is among them
    model = Vocabulary.from_file(vocabulary).model
    asked = {name: settings[name] for name in TOKENIZER_DEFAULTS if name in settings}
    settings |= resolved_settings(vocabulary, asked)
    plan = Preparation(
        files=tuple(sized_files(inputs)),
        output=os.fspath(output),
        model=model,
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
    with nothing_left_of_a_failure(plan):
        begin(plan, state)
        if state == "starts over":
            report(f"{plan.output} was begun with other settings: starts over")
        if state == "has lost shards":
            report(f"{plan.output} was finished, but has lost shards since: starts over")
        return _prepare(plan, options, runner, report)


def _check_beginnings(plan: Preparation) -> None:
    """ValueError unless all files begin like text in the format that they are said to have."""

    def check(file: str) -> None:
        with open_file(file) as stream:
            check_beginning(file, stream, plan.input_format)

    with ThreadPoolExecutor(QUESTIONS_AT_ONCE) as pool:
        for _ in pool.map(check, [file for file, _ in plan.files]):
            pass


def _prepare(
    plan: Preparation, options: PipelineOptions, runner: PipelineRunner, report: Callable[[str], None]
) -> dict[str, Any]:
    """What is missing of a corpus; the content of its stats.json."""
    try:
        with quiet_beam(runner), _Reports(plan, report):
            _run(plan, options, runner)
    except Exception as error:
        goes_on = "; the same command goes on from what is done" if has_finished_tasks(plan) else ""
        raise PreparationFailed(_reason(error) + goes_on) from error
    stats = finish(plan)
    report(shown(stats["counts"]))
    if plan.eval_share and not any(stats["shards"][name]["documents"] for name in plan.eval_shards):
        report(
            f"--eval_share {plan.eval_share} of {stats['counts']['documents']:,} documents, by their hashes, "
            "is none: `pretrain` will hold out a part of this text itself"
        )
    return stats


def _reason(error: Exception) -> str:
    """What has failed in a task: of a failure elsewhere Beam hands on the traceback, as text."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return _ERROR_CLASS.sub("", lines[-1].strip().partition(" [while running ")[0])


def _run(plan: Preparation, options: PipelineOptions, runner: PipelineRunner) -> None:
    """The Beam pipeline, to its end."""
    all_slices = file_slices(plan.files)
    missing_slices = [
        s for s in all_slices if not tf.io.gfile.exists(plan.unfinished(f"run-{s.number:06d}.json"))
    ]
    missing_shards = [
        name for name in plan.shard_names if not tf.io.gfile.exists(plan.unfinished(f"{name}.json"))
    ]
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
    with open_file(file_slice.file) as stream:
        write_spill(file_slice, stream, plan)
    return file_slice.number


def _write_shard(name: str, spills: int, plan: Preparation, spills_written: int) -> str:
    """The second task; that it is given their number lets it wait for the spills."""
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
        total = len(file_slices(self._plan.files))
        counts: Counter[str] = Counter()
        seen: set[str] = set()
        while not self._finished.wait(_SECONDS_BETWEEN_REPORTS):
            try:
                names = tf.io.gfile.listdir(self._plan.unfinished())
                new = [name for name in names if name.endswith(".json") and name not in seen]
                for name in new:
                    if name.startswith("run-"):
                        spill = read_json(self._plan.unfinished(name))
                        counts.update(spill["counts"] | spill["contents"])
            except tf.errors.NotFoundError:
                return  # the same command, started twice, has cleared up
            seen.update(new)
            read = sum(name.startswith("run-") for name in seen)
            written = sum(f"{name}.json" in seen for name in self._plan.shard_names)
            self._report(
                f"{read} of {total} slices read, {written} of {len(self._plan.shard_names)} shards written: "
                f"{shown(counts)}"
            )
