"""`prepare`: tokenises a corpus with Apache Beam."""

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

from albert_tf.data.prepare_files import (
    file_slices,
    make_example_builder,
    spill_name,
    write_shard,
    write_spill,
)
from albert_tf.data.prepare_plan import (
    PreparationFailed,
    PreparationPlan,
    begin_output,
    clear_unfinished,
    finish_output,
    finished_tasks,
    format_counts,
)
from albert_tf.errors import InputError
from albert_tf.io import address_of, check_output_path, check_path, lock_folder
from albert_tf.text.files import Paths, file_identities, input_files
from albert_tf.text.tokenizer import load_tokenizer_config
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS

_DASK_RUNNER = "albert_tf.data.dask_runner.DaskRunner"  # Beam has no short name for its own


def runner_and_options(flags: Sequence[str]) -> tuple[PipelineRunner, PipelineOptions]:
    """The runner that Beam's flags name, and all its options.

    Raises:
      InputError: no runner has this name, a value is invalid, or neither Beam nor the runner knows a flag.
        Beam itself would ignore such a flag.
    """
    options, _ = _parse_beam_flags(flags)
    runner = _create_runner(options.view_as(StandardOptions).runner)
    options, unknown = _parse_beam_flags(flags)  # again, with the options that the runner's module defines
    if unknown:
        problem = "neither flags of prepare nor options of Apache Beam or its runner"
        raise InputError(f"{shlex.join(unknown)}: {problem}")
    if runner is None:
        return _local_runner(options.view_as(DirectOptions)), options
    return runner, options


def _parse_beam_flags(flags: Sequence[str]) -> tuple[PipelineOptions, list[str]]:
    """Beam's options, and the words that it does not know; InputError for an invalid value."""
    stderr, parsers = io.StringIO(), list[Any]()
    try:
        with contextlib.redirect_stderr(stderr):  # Beam's parser lists all its flags before its error
            options = PipelineOptions(list(flags))
            options.get_all_options(add_extra_args_fn=parsers.append)
            return options, parsers[0].parse_known_args(list(flags))[1]
    except SystemExit:
        raise InputError(stderr.getvalue().strip().rpartition("error: ")[2]) from None


def _create_runner(name: str | None) -> PipelineRunner | None:
    """Creates a runner from its name; None for DirectRunner, which is the default."""
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
    """A runner in this process, or in processes that it starts; DirectRunner would download a program."""
    # Beam logs its errors as well as raising them.
    python_logging.getLogger("apache_beam").setLevel(python_logging.CRITICAL + 1)
    if direct.direct_running_mode != "multi_processing":
        return FnApiRunner()
    direct.direct_running_mode = "in_memory"  # otherwise Beam starts its own workers, which log
    worker = f"{shlex.quote(sys.executable)} -m albert_tf.data.beam_worker"
    return FnApiRunner(SubprocessSDKEnvironment.from_command_string(worker))


_SECONDS_BETWEEN_REPORTS = 5.0
_ERROR_CLASS = re.compile(r"^(\w+\.)+\w+: ")  # how the last line of a traceback begins


def prepare(
    inputs: Paths,
    output: str | os.PathLike,
    vocabulary: str | os.PathLike,
    beam_options: Sequence[str] = (),
    report: Callable[[str], None] = logging.info,
    **settings: Any,
) -> dict[str, Any]:
    """Tokenises text into a folder of shards that `pretraining_dataset` reads.

    The same settings give the same files for any number of workers. A worker holds the tokens of one slice of
    the text, or of one shard, in memory. A slice is 32 MiB of a file, or a whole .gz file, since a .gz can
    only be read from its beginning. Split large .gz files, and choose more shards for a large corpus.

    Args:
      inputs: text files, also .gz: a path, a glob or a list, on any filesystem that TensorFlow reads.
      output: the folder to write, on any filesystem that TensorFlow writes.
      vocabulary: path of a vocabulary, such as a SentencePiece model.
      beam_options: flags of Beam and its runner, such as `--runner=DaskRunner`. Without a runner, or with
        DirectRunner, the work is done in this process, or in several with
        `--direct_running_mode=multi_processing --direct_num_workers=4`.
      report: called with lines about the progress.
      **settings: fields of `PreparationSettings`, and `lowercase` and `strip_accents` (bool; default: as the
        vocabulary was trained).
    Returns:
      The content of stats.json.
    Raises:
      FileNotFoundError: an input or the vocabulary does not exist.
      InputError: a setting or flag is invalid, or the folder holds a corpus with other settings.
      FileExistsError: the folder holds the input, or files that `prepare` has not written.
      BlockingIOError: another process prepares text in the folder.
      PreparationFailed: a task failed, for example on a damaged file, or the files hold no documents.
    """
    check_path(output, "output")
    runner, options = runner_and_options(beam_options)
    tokenizer_settings = {name: settings.pop(name) for name in TOKENIZER_DEFAULTS if name in settings}
    files = input_files(inputs)
    identities = file_identities(files)
    plan = PreparationPlan(
        files=tuple((file, identity["bytes"]) for file, identity in zip(files, identities, strict=True)),
        identities=tuple(identities),
        output=os.fspath(output),
        tokenizer=load_tokenizer_config(vocabulary, **tokenizer_settings),
        **settings,
    )
    if plan.format == "examples":
        make_example_builder(plan)  # checks the sizes before hours of work
    with _lock_output(plan.output):
        return _prepare(plan, options, runner, report)


@contextmanager
def _lock_output(output: str) -> Iterator[None]:
    """Creates the output folder, if it is local, and keeps other processes out of it while the block runs."""
    if address_of(output) is not None:
        yield
        return
    folder = Path(output)
    check_output_path(folder, is_folder=True)
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        yield


def _prepare(
    plan: PreparationPlan, options: PipelineOptions, runner: PipelineRunner, report: Callable[[str], None]
) -> dict[str, Any]:
    """Does the work of `prepare` in a locked folder."""
    if (stats := begin_output(plan)) is not None:
        report(f"{plan.output} is finished already, with these settings: nothing to do")
        return stats
    try:
        with _report_progress(plan, report):
            _run_pipeline(plan, options, runner)
    except Exception as error:
        if finished_tasks(plan):
            hint = "; the same command goes on from what is done"
        else:
            hint = ""
            clear_unfinished(plan)
        raise PreparationFailed(_last_line(error) + hint) from error
    stats = finish_output(plan)
    report(format_counts(stats["counts"]))
    return stats


def _last_line(error: Exception) -> str:
    """The last line of an error's message. Beam puts whole tracebacks of other processes into the message."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return _ERROR_CLASS.sub("", lines[-1].strip().partition(" [while running ")[0])


def _run_pipeline(plan: PreparationPlan, options: PipelineOptions, runner: PipelineRunner) -> None:
    """Runs the Beam pipeline with the unfinished tasks."""
    slices, finished = file_slices(plan.files), finished_tasks(plan)
    missing_slices = [x for x in slices if spill_name(x.number) not in finished]
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
def _report_progress(plan: PreparationPlan, report: Callable[[str], None]) -> Iterator[None]:
    """Reports the number of finished tasks, on all machines, every few seconds while the block runs."""
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
