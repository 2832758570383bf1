"""Text of any size to prepared documents or examples, on Apache Beam: here, on Spark, Flink or Dataflow.

Two steps, and nothing but counts goes through Beam between them: each piece of the input becomes a run of
tokenised documents, sorted by shard and hash, in the output folder; each shard is merged from its part of all
runs. What a task has finished lies under its final name, so that a second start does only what is missing.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import tensorflow as tf
from absl import logging as absl_logging
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from albert_tf.data.beam_files import open_file, sized_files
from albert_tf.data.example_files import example_maker
from albert_tf.data.preparation import Preparation, PreparationFailed, begin, finish, read_json, shown
from albert_tf.data.prepared import stats_path
from albert_tf.data.reading import Piece, pieces
from albert_tf.data.runs import write_run, write_shard
from albert_tf.errors import InputError
from albert_tf.text.files import Paths
from albert_tf.text.vocabulary import Vocabulary
from albert_tf.tokenizer_settings import TOKENIZER_DEFAULTS, resolved_settings

_SECONDS_BETWEEN_REPORTS = 5.0


def prepare(
    inputs: Paths,
    output: str | os.PathLike,
    vocabulary: str | os.PathLike,
    beam_options: Sequence[str] = (),
    report: Callable[[str], None] = absl_logging.info,
    **settings: Any,
) -> dict[str, Any]:
    """Tokenises text into a folder of shards that `pretraining_dataset` reads.

    The same settings give the same files whatever the number of workers. A worker holds the tokens of a
    piece of the text (32 MiB, but the whole of a .gz, which can be read from its beginning only) or of a
    shard in memory: divide large .gz files, and name more shards for a large corpus.

    Args:
      inputs: text files, also .gz: a path, a glob or a list, on any filesystem that TensorFlow or Beam reads.
      output: the folder to write, on any filesystem that TensorFlow writes.
      vocabulary: the SentencePiece model.
      beam_options: flags of Beam such as `--runner=SparkRunner`; without a runner, or with DirectRunner, the
        work is done in this process, and with `--direct_running_mode=multi_processing --direct_num_workers=4`
        in several.
      report: what is told about the progress goes here, a line at a time.
      **settings: of `Preparation`: input_format, text_field, shards, eval_share, dedup, seed, lowercase,
        strip_accents, format, seq_length, max_predictions, dupe_factor. How text is normalised is, where not
        given, as the vocabulary remembers it.
    Returns:
      The content of stats.json.
    Raises:
      FileNotFoundError: an input or the vocabulary does not exist.
      ValueError: a setting or flag is impossible, or the folder holds a corpus with other settings.
      PreparationFailed: a task failed, for example on a damaged file, or the files hold no documents.
    """
    options = pipeline_options(beam_options)
    runner = _runner(options)
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
    if plan.format == "examples":
        example_maker(plan)  # which checks the sizes before hours of work
    state = begin(plan)
    if state == "done":
        report(f"{plan.output} is finished already, with these settings: nothing to do")
        return read_json(stats_path(plan.output))
    if state == "starts over":
        report(f"{plan.output} was begun with other settings: starts over")
    if state == "has lost shards":
        report(f"{plan.output} was finished, but has lost shards since: starts over")
    try:
        with _quiet_beam(runner), _Reports(plan, report):
            _run(plan, options, runner)
    except Exception as error:
        # Of a failure elsewhere Beam hands on the traceback, as text: its last line is the error.
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = lines[-1].strip().partition(" [while running ")[0]
        raise PreparationFailed(f"{reason}; the same command goes on from what is done") from error
    stats = finish(plan)
    report(shown(stats["counts"]))
    return stats


def pipeline_options(flags: Sequence[str]) -> PipelineOptions:
    """Beam's options.

    Raises:
      ValueError: a value is impossible, or no part of Beam knows the flag, which Beam itself would pass over.
    """
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):  # where Beam's parser lists all its flags before it
            options = PipelineOptions(list(flags))
            known = options.get_all_options()
            given = options.get_all_options(retain_unknown_options=True)
    except SystemExit:
        raise InputError(complaint.getvalue().strip().rpartition("error: ")[2]) from None
    if unknown := given.keys() - known.keys():
        names = ", ".join(f"--{name}" for name in sorted(unknown))
        raise InputError(f"{names}: neither a flag of prepare nor an option of Apache Beam")
    workers = options.view_as(DirectOptions).direct_num_workers
    if workers < 0:
        raise InputError(f"direct_num_workers={workers} must be at least 0, which means one a core")
    return options


def _runner(options: PipelineOptions) -> PipelineRunner:
    """The runner that options name; ValueError where there is none of that name."""
    name = options.view_as(StandardOptions).runner
    if name is None or name.lower() in ("directrunner", "direct"):
        return FnApiRunner()  # Beam's own choice would fetch a program from the network
    try:
        return create_runner(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise InputError(f"--runner {name}: {error}") from None


@contextlib.contextmanager
def _quiet_beam(runner: PipelineRunner) -> Iterator[None]:
    """Keeps Beam's log of a run on this machine: its error comes with a traceback, and is raised as well.

    Of a cluster the log tells more than the error.
    """
    logger = logging.getLogger("apache_beam")
    level = logger.level
    if isinstance(runner, FnApiRunner):
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _run(plan: Preparation, options: PipelineOptions, runner: PipelineRunner) -> None:
    """The Beam pipeline, to its end."""
    all_pieces = pieces(plan.files)
    missing_pieces = [
        p for p in all_pieces if not tf.io.gfile.exists(plan.unfinished(f"run-{p.number:06d}.json"))
    ]
    missing_shards = [
        name for name in plan.shard_names if not tf.io.gfile.exists(plan.unfinished(f"{name}.json"))
    ]
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        runs = (
            pipeline
            | "Pieces" >> beam.Create(missing_pieces)
            | "SpreadPieces" >> beam.Reshuffle()
            | "WriteRuns" >> beam.Map(_write_run, plan)
            | "CountRuns" >> beam.CombineGlobally(beam.combiners.CountCombineFn())
        )
        _ = (
            pipeline
            | "Shards" >> beam.Create(missing_shards)
            | "SpreadShards" >> beam.Reshuffle()
            | "WriteShards" >> beam.Map(_write_shard, len(all_pieces), plan, beam.pvalue.AsSingleton(runs))
        )


def _write_run(piece: Piece, plan: Preparation) -> int:
    """The first task."""
    with open_file(piece.file) as stream:
        write_run(piece, stream, plan)
    return piece.number


def _write_shard(name: str, runs: int, plan: Preparation, runs_written: int) -> str:
    """The second task; that it is given their number lets it wait for the runs."""
    write_shard(name, runs, plan)
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
        total = len(pieces(self._plan.files))
        counts: Counter[str] = Counter()
        seen: set[str] = set()
        while not self._finished.wait(_SECONDS_BETWEEN_REPORTS):
            try:
                names = tf.io.gfile.listdir(self._plan.unfinished())
                new = [name for name in names if name.endswith(".json") and name not in seen]
                for name in new:
                    if name.startswith("run-"):
                        run = read_json(self._plan.unfinished(name))
                        counts.update(run["counts"] | run["contents"])
            except tf.errors.NotFoundError:
                return  # the same command, started twice, has cleared up
            seen.update(new)
            read = sum(name.startswith("run-") for name in seen)
            written = sum(f"{name}.json" in seen for name in self._plan.shard_names)
            self._report(
                f"{read} of {total} pieces read, {written} of {len(self._plan.shard_names)} shards written: "
                f"{shown(counts)}"
            )
