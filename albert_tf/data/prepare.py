"""`prepare`: a corpus tokenised once, on Apache Beam."""

from __future__ import annotations

import contextlib
import io
import logging as python_logging
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
from absl import logging
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from albert_tf.data.prepare_files import example_maker, file_slices, spill_name, write_shard, write_spill
from albert_tf.data.prepare_plan import (
    Preparation,
    PreparationFailed,
    begin,
    clear,
    finish,
    finished_tasks,
    format_count,
)
from albert_tf.errors import InputError
from albert_tf.io import address_of, check_place, sole_use
from albert_tf.text.files import Paths, file_identities, input_files
from albert_tf.text.tokenizer import load_tokenizer_config
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS

_DASK_RUNNER = "albert_tf.data.dask_runner.DaskRunner"  # Beam knows its own by its full name alone


def runner_and_options(flags: Sequence[str]) -> tuple[PipelineRunner, PipelineOptions]:
    """The runner that Beam's flags name, and all its options.

    Raises:
      InputError: there is no runner of that name, a value is bad, or neither Beam nor the runner knows a
        flag, which Beam would pass over.
    """
    options, _ = _parsed(flags)
    runner = _runner(options.view_as(StandardOptions).runner)
    options, unknown = _parsed(flags)  # again: with those that the runner's module defines
    if unknown:
        names = ", ".join(f"--{name}" for name in sorted(unknown))
        raise InputError(f"{names}: neither a flag of prepare nor an option of Apache Beam or its runner")
    if runner is None:
        return _local_runner(options.view_as(DirectOptions)), options
    return runner, options


def _parsed(flags: Sequence[str]) -> tuple[PipelineOptions, set[str]]:
    """Beam's options, and the names of those that are unknown so far; InputError for a bad value."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):  # where Beam's parser lists all its flags before it
            options = PipelineOptions(list(flags))
            known = options.get_all_options().keys()
            return options, options.get_all_options(retain_unknown_options=True).keys() - known
    except SystemExit:
        raise InputError(complaint.getvalue().strip().rpartition("error: ")[2]) from None


def _runner(name: str | None) -> PipelineRunner | None:
    """A runner by its name; None for the one that needs no other program."""
    if name is None or name.lower() in ("directrunner", "direct"):
        return None
    try:
        runner = create_runner(_DASK_RUNNER if name.lower() in ("daskrunner", "dask") else name)
    except ModuleNotFoundError as error:
        remedy = "; `pip install albert_tf[dask]` brings it" if error.name in ("dask", "distributed") else ""
        raise InputError(f"--runner {name}: {error}{remedy}") from None
    except (ValueError, ImportError, AttributeError, TypeError) as error:
        raise InputError(f"--runner {name}: {error}") from None
    if not isinstance(runner, PipelineRunner):
        raise InputError(f"--runner {name}: that is no runner of Apache Beam")
    return runner


def _local_runner(direct: DirectOptions) -> PipelineRunner:
    """The runner in this process, or in others that it starts; DirectRunner's own would come from the net."""
    # Its errors are raised as well.
    python_logging.getLogger("apache_beam").setLevel(python_logging.CRITICAL + 1)
    if direct.direct_running_mode != "multi_processing":
        return FnApiRunner()
    direct.direct_running_mode = "in_memory"  # else Beam starts workers of its own, which log
    worker = f"{shlex.quote(sys.executable)} -m albert_tf.data.beam_worker"
    return FnApiRunner(SubprocessSDKEnvironment.from_command_string(worker))


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
      beam_options: flags of Beam and its runner, such as `--runner=DaskRunner`; without a runner, or with
        DirectRunner, the work is done in this process, and with
        `--direct_running_mode=multi_processing --direct_num_workers=4` in several.
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
    runner, options = runner_and_options(beam_options)
    asked = {name: settings.pop(name) for name in TOKENIZER_DEFAULTS if name in settings}
    files = input_files(inputs)
    identities = file_identities(files)
    plan = Preparation(
        files=tuple((file, known["bytes"]) for file, known in zip(files, identities, strict=True)),
        identities=tuple(identities),
        output=os.fspath(output),
        tokenizer=load_tokenizer_config(vocabulary, **asked),
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
    report(format_count(stats["counts"]))
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
