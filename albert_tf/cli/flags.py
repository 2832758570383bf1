"""Flags that several commands share, and the settings that are read from them."""

from __future__ import annotations

import argparse
import inspect
import re
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import logging

from albert_tf.config import PRESETS, AlbertConfig, published_format
from albert_tf.errors import InputError
from albert_tf.io import check_exists, check_new_local_folder
from albert_tf.settings import flat_fields
from albert_tf.signals import quiet_start
from albert_tf.training.compute_settings import ComputeConfig, LoopSettings

if TYPE_CHECKING:
    from albert_tf.report import Report
    from albert_tf.runs.run_directory import RunDirectory
    from albert_tf.tasks.columns import Columns

Flags = argparse.ArgumentParser | argparse._ArgumentGroup

# An explanation of the metrics. The metrics of GLUE, SQuAD and RACE are the official ones.
METRICS_HELP = (
    "Metrics: classification: accuracy and f1 (macro: the mean of the F1 scores of all labels, in which a "
    "rare label counts as much as a frequent one); multi_label: micro_f1 (over all decisions), macro_f1, and "
    "accuracy (all labels of a text right); regression: the Pearson and Spearman correlations; tagging: f1, "
    "precision and recall of entities, and accuracy of words; multiple_choice: accuracy. Their names begin "
    "with eval_ in the log and in metrics.jsonl of a run."
)

RUN_HELP = "run directory, or a folder of several, whose best is taken"
STEP_HELP = "training step of the checkpoint (default: the newest; for a fine-tuned run the best)"
DATA_HELP = "folder of the task's original files (GLUE, race)"
TEXT_HELP = "text files or globs, .gz too, or a folder of prepare"


def add_paths_flag(parser: Flags, name: str, text: str, required: bool = True) -> None:
    """Adds a flag that takes several paths. If it is repeated, the paths are joined."""
    parser.add_argument(name, nargs="+", action="extend", required=required, help=text)


def add_tokenizer_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the normalisation of text."""
    for name, what in (("lowercase", "case"), ("strip_accents", "accents")):
        _add_off_flag(parser, name, f"keep {what}; a vocabulary remembers how it was trained")


def _add_off_flag(parser: Flags, name: str, text: str) -> None:
    """Adds --noNAME, absl's spelling of a flag that turns something off."""
    default = argparse.SUPPRESS
    parser.add_argument(f"--no{name}", dest=name, action="store_false", default=default, help=text)


def add_run_flags(parser: argparse.ArgumentParser, loop: Mapping[str, str] | None = None) -> None:
    """Adds the flags of every training: its directory, its computation, and when it saves.

    Args:
      parser: the parser of the command.
      loop: texts for --help about defaults that differ from those of LoopSettings, by the name of the field.
    """
    parser.add_argument("--output", required=True, help="run directory; resumed where it holds checkpoints")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (0)")
    add_field_flags(parser, ComputeConfig)
    add_field_flags(parser, LoopSettings, loop)
    add_tokenizer_flags(parser)


def provided_run_settings(flags: argparse.Namespace) -> dict[str, Any]:
    """The settings of a training that the command line names, by the fields of RunSettings."""
    return {
        **{name: getattr(flags, name) for name in ("output", "init_from", "seed")},
        "compute": ComputeConfig(**provided_fields(flags, ComputeConfig)),
        "command": flags.command_line,
    }


def resolve_config(name: str, flag: str = "--config") -> AlbertConfig:
    """The config that a flag names: a preset, or the content of a JSON file."""
    if name in PRESETS:
        return PRESETS[name]
    if not Path(name).exists():
        raise InputError(f"{flag} {name} is neither a file nor one of {', '.join(PRESETS)}")
    return AlbertConfig.from_json_file(name)


def add_checkpoint_flags(parser: Flags) -> None:
    """Adds the flags of a command that computes with a checkpoint of a run."""
    parser.add_argument("--step", type=int, help=STEP_HELP)
    parser.add_argument("--batch_size", type=int, default=32, help="examples at a time, for the memory (32)")
    add_field_flags(parser, ComputeConfig, only=("deterministic", "xla"))
    parser.set_defaults(deterministic=False, xla=None)


def start_computing(flags: argparse.Namespace) -> None:
    """Imports TensorFlow without its messages, and makes it deterministic if --deterministic is given."""
    with quiet_start():
        import tensorflow as tf
    if flags.deterministic:
        tf.config.experimental.enable_op_determinism()


def add_patience_flag(parser: Flags) -> None:
    """Adds --patience: when an example leaves the network early."""
    leaves = "an example leaves once N layers in a row agree with the layer before (all layers)"
    parser.add_argument("--patience", type=int, metavar="N", help=f"of a run with --early_exit: {leaves}")


_NO_FILE = "no such file or glob: correct the path"
_NO_RUN = "no such folder: name a run"
# The problem that is reported if a path of the flag does not exist.
_INPUT_FLAGS = dict.fromkeys(("train", "eval", "input", "unlabelled"), _NO_FILE)
_INPUT_FLAGS |= {"data": "no such folder: correct the path", "run": _NO_RUN}
_WEIGHT_FLAGS = ("init_from", "teacher")
_GLOB = re.compile(r"[*?\[\\]")


def check_inputs(flags: argparse.Namespace) -> None:
    """Checks that local files and runs exist, before TensorFlow is imported, which takes seconds.

    Addresses such as gs://…, globs and published names are checked later, when they are read.

    Raises:
      FileNotFoundError: a file or run does not exist.
      InputError: --init_from or --teacher is neither a path nor a published name.
    """
    for name, problem in _INPUT_FLAGS.items():
        for path in _paths(flags, name):
            if path != "-" and not _GLOB.search(path):
                check_exists(path, problem)
    outputs = [Path(path) for path in _paths(flags, "output")]
    if any((path / "checkpoints").exists() or any(path.glob("seed-*/checkpoints")) for path in outputs):
        return  # a run that has begun has its weights
    for name in _WEIGHT_FLAGS:
        for path in _paths(flags, name):
            if ":" not in path and published_format(path) is None:
                check_exists(path, _NO_RUN)


def _paths(flags: argparse.Namespace, name: str) -> Sequence[str]:
    """The paths of a flag; empty if the command has no such flag, or it is not given."""
    value = getattr(flags, name, None) or ()
    return (value,) if isinstance(value, str) else value


def open_best_run(name: str) -> RunDirectory:
    """Opens a run directory. In a folder of several seeds it chooses the best run, and logs its name."""
    from albert_tf.runs.run_directory import best_run

    run = best_run(name)
    if str(run) != name:
        logging.info("%s is the best run of %s", run, name)
    return run


def provided(flags: argparse.Namespace, names: Collection[str]) -> dict[str, Any]:
    """The values of the flags that are given, by name."""
    return {name: value for name in names if (value := getattr(flags, name, None)) is not None}


def check_unused(flags: argparse.Namespace, names: Collection[str], what: str) -> None:
    """Raises InputError if one of the flags is given. `what` says where they have no effect."""
    if unused := [f"--{name}" for name in provided(flags, names)]:
        raise InputError(f"{', '.join(unused)}: of no use to {what}, leave it out")


COLUMN_FLAGS = ("text", "text_pair", "label", "label_separator")


def add_column_flags(parser: Flags, default: str = "") -> None:
    """Adds the flags that name the columns of a table."""
    for name, what in (("text", "texts"), ("text_pair", "second texts"), ("label", "labels")):
        parser.add_argument(f"--{name}", metavar="COLUMN", help=f"column of the {what}{default}")
    separator = f"sign between several labels in a cell, of multi_label{default or ' (; or |)'}"
    parser.add_argument("--label_separator", metavar="SIGN", help=separator)


def provided_columns(flags: argparse.Namespace) -> Columns | None:
    """The columns that the command line names; None if it names none."""
    names = provided(flags, COLUMN_FLAGS)
    if names and "text" not in names:
        further = ", ".join(f"--{name}" for name in names)
        raise InputError(f"{further}: name the column of the texts, too, by --text")
    from albert_tf.tasks.columns import Columns

    return Columns(**names) if names else None


def add_field_flags(
    parser: Flags,
    kind: type,
    default: str | Mapping[str, str] | None = None,
    exclude: Collection[str] = (),
    only: Collection[str] | None = None,
) -> None:
    """Adds a flag for each field of a dataclass and of the dataclasses in it.

    The namespace has no attribute for a flag that is not given.

    Args:
      parser: parser or group to add the flags to.
      kind: the dataclass. The Args section of its docstring has the help of each flag.
      default: text for --help about the default of all fields, or of some by name; else the field's default.
      exclude: names of fields that get no flag, since another dataclass has them, too.
      only: names of the only fields that get a flag; None: all.
    """
    for owner, field in flat_fields(kind):
        if field.name in exclude or (only is not None and field.name not in only):
            continue
        hint = typing.get_type_hints(owner)[field.name]
        text = _argument_texts(owner)[field.name].rstrip(".")
        value = default if isinstance(default, str) else (default or {}).get(field.name, field.default)
        text = (text if value is None or value is False else f"{text} ({value})").replace("%", "%%")
        flag: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS}
        if hint in (bool, bool | None):
            flag["action"] = argparse.BooleanOptionalAction
            _add_off_flag(parser, field.name, argparse.SUPPRESS)
        else:
            flag["type"] = _value_parser(hint)
            flag["choices"] = field.metadata.get("choices") or None
        parser.add_argument(f"--{field.name}", **flag)


def provided_fields(flags: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The values that the command line gives for fields of a dataclass and of the dataclasses in it."""
    names = field_names(kind)
    return {name: value for name, value in vars(flags).items() if name in names}


def field_names(kind: type) -> set[str]:
    """The names of the fields of a dataclass and of the dataclasses in it."""
    return {field.name for _, field in flat_fields(kind)}


def _value_parser(hint: Any) -> Callable[[str], Any]:
    """The function that parses a flag's value. The word "none" is None if the type allows it.

    A tuple is given as the path of a JSON file, and stays a path here.
    """
    if not typing.get_args(hint):
        return hint
    is_path = typing.get_origin(hint) is tuple
    value_type = str if is_path else next(x for x in typing.get_args(hint) if x is not type(None))

    def parse(word: str) -> Any:
        return None if word.lower() == "none" else value_type(word)

    parse.__name__ = value_type.__name__  # for argparse's errors
    return parse


def _argument_texts(kind: type) -> dict[str, str]:
    """The text about each field in the Args section of a dataclass' docstring."""
    section = (inspect.getdoc(kind) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def add_report_flag(parser: Flags) -> None:
    """Adds the flag of the folder of a report."""
    text = "new folder for all figures, tables, curves and the worst errors: report.html, JSON, CSV and PNG"
    parser.add_argument("--report", metavar="FOLDER", help=text)


def check_report(flags: argparse.Namespace) -> None:
    """Raises an error if the report cannot be written to its folder, before any work is done."""
    if flags.report is not None:
        check_new_local_folder(Path(flags.report))
        output = getattr(flags, "output", None)
        if output is not None and Path(output).absolute().is_relative_to(Path(flags.report).absolute()):
            raise InputError(f"--report {flags.report}: the run will be there: name another folder")


def output_report(report: Report, folder: str | None, title: str) -> None:
    """Logs the lines of a report, and writes it if a folder is given."""
    for line in report.text():
        logging.info(line)
    if folder is not None:
        from albert_tf.report_folder import write_report  # imports matplotlib, which takes a second

        logging.info("wrote %s", write_report(Path(folder), title, report))
