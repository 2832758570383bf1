"""Flags that several commands have, and the values that users give them."""

from __future__ import annotations

import argparse
import inspect
import re
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import logging

from albert_tf.config import PRESETS, AlbertConfig, publisher_of
from albert_tf.errors import InputError
from albert_tf.io import check_new, check_there
from albert_tf.settings import flat_fields
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS
from albert_tf.training.compute_settings import ComputeConfig, LoopSettings

if TYPE_CHECKING:
    from albert_tf.report import Report
    from albert_tf.runs.run_directory import RunDirectory
    from albert_tf.tasks.columns import Columns

# What flags are added to.
Flags = argparse.ArgumentParser | argparse._ArgumentGroup

# What the names of the figures mean; those of GLUE, SQuAD and RACE are the official ones.
METRICS_HELP = (
    "Figures: of classification accuracy and f1 (macro: the mean of the F1 scores of all labels, of which a "
    "rare one counts as much as a frequent one); of multi_label micro_f1 (over all decisions), macro_f1, and "
    "accuracy (all labels of a text right); of regression the Pearson and Spearman correlations; of "
    "tagging f1, precision and recall of entities, and accuracy of words; of multiple_choice accuracy. Their "
    "names begin with eval_ in the log and in metrics.jsonl of a run."
)

RUN_HELP = "run directory, or a folder of several, whose best is taken"
STEP_HELP = "of the checkpoint (the newest; of a fine-tuned run the best)"
DATA_HELP = "folder of the task's original files (GLUE, race)"
TEXT_HELP = "text files or globs, .gz too, or a folder of prepare"


def paths_flag(parser: Flags, name: str, text: str, required: bool = True) -> None:
    """A flag of several paths; given again, of further ones."""
    parser.add_argument(name, nargs="+", action="extend", required=required, help=text)


def tokenizer_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of the normalisation of text."""
    for name, what in (("lowercase", "case"), ("strip_accents", "accents")):
        _off_flag(parser, name, f"keep {what}; a vocabulary remembers how it was trained")


def _off_flag(parser: Flags, name: str, text: str) -> None:
    """A flag that turns something off, as absl spells it."""
    default = argparse.SUPPRESS
    parser.add_argument(f"--no{name}", dest=name, action="store_false", default=default, help=text)


def run_flags(parser: argparse.ArgumentParser, loop: Mapping[str, str] | None = None) -> None:
    """Flags of every training: where it is, how it is computed, and when it saves.

    `loop` is what the help says of defaults of LoopSettings that are others.
    """
    parser.add_argument("--output", required=True, help="run directory; resumed where it holds checkpoints")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (0)")
    field_flags(parser, ComputeConfig)
    field_flags(parser, LoopSettings, loop)
    tokenizer_flags(parser)


def provided_run(flags: argparse.Namespace) -> dict[str, Any]:
    """Settings of a training that the command line names, by the fields of RunSettings."""
    return {
        **{name: getattr(flags, name) for name in ("output", "init_from", "seed")},
        "execution": ComputeConfig(**provided(flags, ComputeConfig)),
        "command": flags.command_line,
    }


def provided_tokenizer(flags: argparse.Namespace) -> dict[str, Any]:
    """Settings of the normalisation that the command line names."""
    return {name: getattr(flags, name) for name in TOKENIZER_DEFAULTS if hasattr(flags, name)}


def config_named(name: str, flag: str = "--config") -> AlbertConfig:
    """A preset, or the config in a file, that a flag names."""
    if name in PRESETS:
        return PRESETS[name]
    if not Path(name).exists():
        raise InputError(f"{flag} {name} is neither a file nor one of {', '.join(PRESETS)}")
    return AlbertConfig.from_json_file(name)


def checkpoint_flags(parser: Flags) -> None:
    """The checkpoint of a run to compute with, and how."""
    parser.add_argument("--step", type=int, help=STEP_HELP)
    parser.add_argument("--batch_size", type=int, default=32, help="examples at a time, for the memory (32)")
    field_flags(parser, ComputeConfig, only=("deterministic", "xla"))
    parser.set_defaults(deterministic=False, xla=None)


EXIT_FLAGS = ("patience",)


def exit_flags(parser: Flags) -> None:
    """The layers that must agree before an example leaves the network: the flags of EXIT_FLAGS."""
    leaves = "an example leaves once so many layers in a row agree with the one before (all layers)"
    parser.add_argument("--patience", type=int, metavar="N", help=f"of a run with --early_exit: {leaves}")


_NO_FILE = "no such file or glob: correct the path"
_NO_RUN = "no such folder: name a run"
_INPUTS = dict.fromkeys(("train", "eval", "input", "unlabelled"), _NO_FILE)
_INPUTS |= {"data": "no such folder: correct the path", "run": _NO_RUN}
_ORIGINS = ("init_from", "teacher")
_GLOB = re.compile(r"[*?\[\\]")


def check_inputs(flags: argparse.Namespace) -> None:
    """Says which file or run of this machine is missing, before anybody waits for TensorFlow.

    What is at an address, matches a glob or may be published is looked for later, by what reads it.

    Raises:
      FileNotFoundError: a file or run is not there.
      InputError: what weights are to come from is neither a path nor a published name.
    """
    for name, problem in _INPUTS.items():
        for path in _paths(flags, name):
            if path != "-" and not _GLOB.search(path):
                check_there(path, problem)
    is_begun = any(Path(path, "checkpoints").exists() for path in _paths(flags, "output"))
    for path in () if is_begun else (path for name in _ORIGINS for path in _paths(flags, name)):
        if ":" not in path and publisher_of(path) is None:  # a begun run has its weights
            check_there(path, _NO_RUN)


def _paths(flags: argparse.Namespace, name: str) -> Sequence[str]:
    """What a flag names, if the command has it and it is given."""
    value = getattr(flags, name, None) or ()
    return (value,) if isinstance(value, str) else value


def run_named(name: str) -> RunDirectory:
    """A run directory; of a folder of several seeds the best run, which is logged."""
    from albert_tf.runs.run_directory import best_run

    run = best_run(name)
    if str(run) != name:
        logging.info("%s is the best run of %s", run, name)
    return run


def check_unused(flags: argparse.Namespace, names: Collection[str], what: str) -> None:
    """InputError if flags are given that are of no use to something."""
    if unused := [f"--{name}" for name in names if getattr(flags, name, None) is not None]:
        raise InputError(f"{', '.join(unused)}: of no use to {what}, leave it out")


def column_flags(parser: Flags, default: str = "") -> None:
    """The columns of one's own table."""
    for name, what in (("text", "texts"), ("text_pair", "second texts"), ("label", "labels")):
        parser.add_argument(f"--{name}", metavar="COLUMN", help=f"column of the {what}{default}")


def provided_columns(flags: argparse.Namespace) -> Columns | None:
    """The columns that the command line names; None where it names none."""
    if flags.text is None and (flags.text_pair or flags.label):
        raise InputError("--text_pair and --label name further columns: name that of the texts by --text")
    from albert_tf.tasks.columns import Columns

    return None if flags.text is None else Columns(flags.text, flags.text_pair, flags.label)


def field_flags(
    parser: Flags,
    kind: type,
    default: str | Mapping[str, str] | None = None,
    but: Collection[str] = (),
    only: Collection[str] | None = None,
) -> None:
    """A flag for each field of a record and of the records in it; not given, the namespace lacks it.

    The help is what the docstring says of the field, and what is said of values that are not given, of all or
    by name; else the fields' own defaults. Fields in `but` get none, where another record has them, too;
    with `only` no others do.
    """
    for owner, field in flat_fields(kind):
        if field.name in but or (only is not None and field.name not in only):
            continue
        hint = typing.get_type_hints(owner)[field.name]
        text = _argument_texts(owner)[field.name].rstrip(".")
        shown = default if isinstance(default, str) else (default or {}).get(field.name, field.default)
        text = (text if shown is None or shown is False else f"{text} ({shown})").replace("%", "%%")
        flag: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS}
        if hint in (bool, bool | None):
            flag["action"] = argparse.BooleanOptionalAction
            _off_flag(parser, field.name, argparse.SUPPRESS)
        else:
            flag["type"] = _parser(hint)
            flag["choices"] = field.metadata.get("choices")
        parser.add_argument(f"--{field.name}", **flag)


def provided(flags: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The fields of a record, and of the records in it, that the command line sets."""
    names = field_names(kind)
    return {name: value for name, value in vars(flags).items() if name in names}


def field_names(kind: type) -> set[str]:
    """The names of the fields of a record and of the records in it."""
    return {field.name for _, field in flat_fields(kind)}


def _parser(hint: Any) -> Callable[[str], Any]:
    """The parser of a value of `hint`; of some type or None, and of records in a file, also of "none"."""
    if not typing.get_args(hint):
        return hint
    in_file = typing.get_origin(hint) is tuple
    value_type = str if in_file else next(x for x in typing.get_args(hint) if x is not type(None))

    def parse(word: str) -> Any:
        return None if word.lower() == "none" else value_type(word)

    parse.__name__ = value_type.__name__  # for argparse's errors
    return parse


def _argument_texts(kind: type) -> dict[str, str]:
    """The text of a dataclass' docstring about each field."""
    section = (inspect.getdoc(kind) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def report_flag(parser: Flags) -> None:
    """The folder of a report."""
    text = "new folder for all figures, tables, curves and the worst errors: report.html, JSON, CSV and PNG"
    parser.add_argument("--report", metavar="FOLDER", help=text)


def check_report(flags: argparse.Namespace) -> None:
    """Refuses a folder that is there already, before work is done."""
    if flags.report is not None:
        check_new(Path(flags.report))


def give_report(report: Report, folder: str | None, title: str) -> None:
    """Logs the lines of a report, and writes it where a folder is named."""
    for line in report.text():
        logging.info(line)
    if folder is not None:
        from albert_tf.report_folder import write_report  # draws, for which matplotlib takes a second

        logging.info("wrote %s", write_report(Path(folder), title, report))
