"""Beam's options, and what runs a pipeline: this process, several here, or a cluster."""

from __future__ import annotations

import contextlib
import io
import logging
import shlex
import sys
from collections.abc import Sequence

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from albert_tf.utils.errors import InputError


def pipeline_options(flags: Sequence[str]) -> PipelineOptions:
    """Beam's options; InputError for a bad value, or a flag that it does not know and would pass over."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):  # where Beam's parser lists all its flags before it
            options = PipelineOptions(list(flags))
            unknown = (
                options.get_all_options(retain_unknown_options=True).keys() - options.get_all_options().keys()
            )
    except SystemExit:
        raise InputError(complaint.getvalue().strip().rpartition("error: ")[2]) from None
    if unknown:
        names = ", ".join(f"--{name}" for name in sorted(unknown))
        raise InputError(f"{names}: neither a flag of prepare nor an option of Apache Beam")
    return options


def runner_of(options: PipelineOptions) -> PipelineRunner:
    """The runner that options name; InputError where there is none of that name."""
    name = options.view_as(StandardOptions).runner
    if name is not None and name.lower() not in ("directrunner", "direct"):
        try:
            return create_runner(name)
        except (ValueError, ImportError, AttributeError) as error:
            raise InputError(f"--runner {name}: {error}") from None
    # DirectRunner's own choice of these would be fetched from the net.
    direct = options.view_as(DirectOptions)
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL + 1)  # its errors are raised as well
    if direct.direct_running_mode != "multi_processing":
        return FnApiRunner()
    direct.direct_running_mode = "in_memory"  # else Beam starts workers of its own, which log
    worker = f"{shlex.quote(sys.executable)} -m albert_tf.preprocessing.beam_worker"
    return FnApiRunner(SubprocessSDKEnvironment.from_command_string(worker))
