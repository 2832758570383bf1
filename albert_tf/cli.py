"""The command line: flags in, functions called, errors as one line."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import logging
import os
import re
import shlex
import sys
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.analysis.parameters import parameter_count
from albert_tf.checkpoints.conversion import READERS, WRITERS, convert
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.data.preparation import OUTPUT_FORMATS, Preparation, PreparationFailed
from albert_tf.data.reading import FORMATS
from albert_tf.errors import InputError
from albert_tf.recipes import DEFAULT_RECIPE, RECIPES, PretrainingRecipe
from albert_tf.startup import RESUME_STATUS, OneLineParser
from albert_tf.text import train_vocabulary
from albert_tf.training.evaluate import evaluate_run
from albert_tf.training.loop import TrainingFailed
from albert_tf.training.loop_settings import LoopSettings
from albert_tf.training.preemption import Preempted
from albert_tf.training.pretrain import pretrain
from albert_tf.training.settings import POLICIES, Pretraining
from albert_tf.training.strategies import AUTO, STRATEGIES

# What ends a command as one line, and the exit status of each.
FAILURES: dict[type[BaseException], int] = {
    Preempted: RESUME_STATUS,
    TrainingFailed: 1,
    PreparationFailed: 1,
    tf.errors.OpError: 1,
    OSError: 2,
    InputError: 2,
    KeyboardInterrupt: 130,
}


_TEXT = "text files or globs, .gz too, or a folder of prepare"


class Command(NamedTuple):
    """A command: its line in the list, its flags, and what it does."""

    summary: str
    add_flags: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def run(arguments: Sequence[str]) -> int:
    """Runs a command line.

    Args:
      arguments: the command line without the program's name.
    Returns:
      The exit status: 0 when the work is done, 1 when it failed, 2 for a user's mistake, 75 when SIGTERM
      stopped a run that the same command resumes. All but 0 come with one line on stderr; with
      ALBERT_TF_TRACEBACK=1 in the environment, with a traceback.
    """
    parser = command_line_parser()
    flags, others = parser.parse_known_args(arguments)
    flags.others = others
    if others and flags.command != "prepare":  # whose other flags are Beam's
        parser.error(f"unrecognized arguments: {shlex.join(others)}")
    flags.command_line = shlex.join(["albert-tf", *arguments])
    try:
        COMMANDS[flags.command].run(flags)
    except tuple(FAILURES) as error:
        if os.environ.get("ALBERT_TF_TRACEBACK") == "1":
            raise
        status = next(status for kind, status in FAILURES.items() if isinstance(error, kind))
        print(f"albert-tf {flags.command}: {_one_line(error)}", file=sys.stderr)
        return status
    return 0


def command_line_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = OneLineParser(prog="albert-tf", description="ALBERT, from raw text to TF Hub modules.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_flags(
            commands.add_parser(name, help=command.summary, description=command.summary, allow_abbrev=False)
        )
    return parser


def _one_line(error: BaseException) -> str:
    """What an exception says, without line breaks."""
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    text = error.message if isinstance(error, tf.errors.OpError) else str(error)
    text = re.sub(r"{{.*?}}", "", text)  # the nodes of TensorFlow's graph
    return " ".join(text.split()) or type(error).__name__


def _paths_flag(parser: argparse.ArgumentParser, name: str, text: str, required: bool = True) -> None:
    """A flag of several paths; given again, of further ones."""
    parser.add_argument(name, nargs="+", action="extend", required=required, help=text)


def _vocab_flags(parser: argparse.ArgumentParser) -> None:
    _paths_flag(parser, "--input", "text files or globs, .gz too")
    parser.add_argument("--vocab_size", type=int, default=30000, help="pieces (30000)")
    parser.add_argument("--output", required=True, help="the .model file to write")
    parser.add_argument(
        "--max_sentences", type=int, default=10_000_000, help="lines sampled of a larger corpus"
    )
    _tokenizer_flags(parser)


def _vocab(flags: argparse.Namespace) -> None:
    vocabulary = train_vocabulary(
        flags.input,
        flags.output,
        vocab_size=flags.vocab_size,
        lowercase=flags.lowercase,
        strip_accents=flags.strip_accents,
        max_sentences=flags.max_sentences,
    )
    print(f"{flags.output}: {len(vocabulary)} pieces")


def _tokenizer_flags(parser: argparse.ArgumentParser) -> None:
    for name, what in (("lowercase", "case"), ("strip_accents", "accents")):
        parser.add_argument(f"--no{name}", dest=name, action="store_false", help=f"keep {what}")


def _prepare_flags(parser: argparse.ArgumentParser) -> None:
    _paths_flag(parser, "--input", "text files or globs, .gz too")
    parser.add_argument("--input_format", default="lines", choices=FORMATS, help="of the text (lines)")
    parser.add_argument("--text_field", default="text", help="of jsonl, where the text is (text)")
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model")
    parser.add_argument("--output", required=True, help="folder to write")
    parser.add_argument("--shards", type=int, default=16, help="training files (16)")
    parser.add_argument("--eval_share", type=float, default=0.0, help="of the documents, held out (0)")
    parser.add_argument("--dedup", action="store_true", help="drop repeated documents")
    parser.add_argument("--seed", type=int, default=0, help="of the order and of examples (0)")
    parser.add_argument(
        "--format", default="documents", choices=OUTPUT_FORMATS, help="what is stored (documents)"
    )
    parser.add_argument("--seq_length", type=int, default=512, help="of examples (512)")
    parser.add_argument("--max_predictions", type=int, help="of examples (15 %% of seq_length)")
    parser.add_argument("--dupe_factor", type=int, default=10, help="examples of the same text (10)")
    _tokenizer_flags(parser)
    parser.epilog = (
        "Any option of Apache Beam as well: --runner, --direct_running_mode, --direct_num_workers, …"
    )


def _prepare(flags: argparse.Namespace) -> None:
    # Beam says at its import that it has not got what only Google's cloud needs.
    logging.getLogger().addFilter(lambda record: "apitools" not in str(record.msg))
    from albert_tf.data.corpus import prepare  # slow to import

    settings = {
        f.name: getattr(flags, f.name) for f in dataclasses.fields(Preparation) if hasattr(flags, f.name)
    }
    del settings["output"]
    prepare(
        flags.input,
        flags.output,
        flags.vocabulary,
        beam_options=flags.others,
        report=lambda line: print(line, file=sys.stderr),
        **settings,
    )


def _pretrain_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", required=True, help=f"a JSON file, or one of {', '.join(PRESETS)}")
    _paths_flag(parser, "--train", _TEXT)
    held_out = "to evaluate on (what prepare has held out, or else about 1 %% of the text)"
    _paths_flag(parser, "--eval", held_out, required=False)
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model; it sets vocab_size")
    parser.add_argument("--output", required=True, help="run directory; resumed where it holds checkpoints")
    parser.add_argument(
        "--recipe",
        choices=RECIPES,
        metavar="NAME",
        help=f"hyper-parameters (the preset's, else {DEFAULT_RECIPE}): {', '.join(RECIPES)}",
    )
    _field_flags(parser, PretrainingRecipe, default="the recipe's")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (0)")
    parser.add_argument("--init_from", metavar="RUN", help="run of the same widths to take the weights from")
    parser.add_argument(
        "--extend_positions", action="store_true", help="start further positions than RUN has at random"
    )
    _execution_flags(parser)
    _field_flags(parser, LoopSettings)
    _tokenizer_flags(parser)


def _execution_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strategy",
        default=AUTO,
        choices=[AUTO, *STRATEGIES],
        help="one device, all GPUs, the hosts of TF_CONFIG, or a TPU (auto: what is there)",
    )
    parser.add_argument("--tpu", help="name or address of a TPU; local on its own host")
    parser.add_argument(
        "--precision", default="float32", choices=POLICIES, help="of the computation (float32)"
    )
    parser.add_argument("--accumulate", type=int, default=1, help="microbatches an update (1)")
    parser.add_argument("--xla", action="store_true", help="compile forward and backward with XLA")
    parser.add_argument(
        "--remat", action="store_true", help="compute layers anew in the backward pass, for less memory"
    )
    parser.add_argument("--data_service", metavar="ADDRESS", help="tf.data service, grpc://host:port")


def _pretrain(flags: argparse.Namespace) -> None:
    name = flags.recipe or (flags.config if flags.config in RECIPES else DEFAULT_RECIPE)
    recipe = RECIPES[name].replace(**_given(flags, PretrainingRecipe))
    taken = {"config", "recipe", "command", *(field.name for field in dataclasses.fields(LoopSettings))}
    same = {f.name: getattr(flags, f.name) for f in dataclasses.fields(Pretraining) if f.name not in taken}
    loop = {name: value for name, value in _given(flags, LoopSettings).items() if name != "steps"}
    pretrain(
        Pretraining(config=_config(flags.config), recipe=recipe, command=flags.command_line, **same, **loop)
    )


def _config(name: str) -> AlbertConfig:
    """A preset, or the config in a file."""
    if name in PRESETS:
        return PRESETS[name]
    if not Path(name).exists():
        raise InputError(f"--config {name} is neither a file nor one of {', '.join(PRESETS)}")
    return AlbertConfig.from_json_file(name)


def _field_flags(parser: argparse.ArgumentParser, kind: type, default: str | None = None) -> None:
    """A flag for each field of a dataclass that has none yet; not given, the namespace lacks it.

    Args:
      parser: what gets the flags.
      kind: the dataclass.
      default: what the help says of values that are not given; None: the fields' own.
    """
    types, texts = typing.get_type_hints(kind), _argument_texts(kind)
    for field in dataclasses.fields(kind):
        if any(f"--{field.name}" in action.option_strings for action in parser._actions):
            continue
        hint = types[field.name]
        text = f"{texts[field.name].rstrip('.')} ({default or field.default})".replace("%", "%%")
        flag: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS}
        if hint is bool:
            flag["action"] = argparse.BooleanOptionalAction
        else:
            flag["type"] = _optional(hint) if typing.get_args(hint) else hint
        parser.add_argument(f"--{field.name}", **flag)


def _optional(hint: Any) -> Callable[[str], Any]:
    """The parser of a value of `hint`, some type or None: of a word, which may be "none"."""
    (value_type,) = (part for part in typing.get_args(hint) if part is not type(None))

    def parse(word: str) -> Any:
        return None if word.lower() == "none" else value_type(word)

    parse.__name__ = value_type.__name__  # for argparse's errors
    return parse


def _argument_texts(kind: type) -> dict[str, str]:
    """What the docstring of a dataclass says of each field."""
    section = (inspect.getdoc(kind) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _given(flags: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The fields of a dataclass that the command line sets."""
    return {f.name: getattr(flags, f.name) for f in dataclasses.fields(kind) if hasattr(flags, f.name)}


def _evaluate_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", required=True, help="run directory")
    _paths_flag(parser, "--input", _TEXT + ", for what is held out")
    parser.add_argument("--step", type=int, help="of the checkpoint (the newest)")
    parser.add_argument("--seq_length", type=int, help="tokens of an example (as the run was trained)")
    parser.add_argument(
        "--batch_size", type=int, default=32, help="examples at a time; changes no figure (32)"
    )
    parser.add_argument("--max_examples", type=int, help="stop after so many, in whole batches")
    parser.add_argument("--passes", type=int, default=1, help="times over the text, with other masks (1)")


def _evaluate(flags: argparse.Namespace) -> None:
    figures = evaluate_run(
        flags.run,
        flags.input,
        flags.batch_size,
        flags.max_examples,
        flags.passes,
        step=flags.step,
        seq_length=flags.seq_length,
    )
    print(json.dumps(figures, indent=2))


def _convert_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="source", required=True, choices=[*READERS, "run"], help="format of the input"
    )
    parser.add_argument(
        "--to", dest="target", required=True, choices=["run", *WRITERS], help="format of the output"
    )
    parser.add_argument(
        "--input", required=True, help="checkpoint: a folder, a .tar.gz, or the weights' file"
    )
    parser.add_argument("--output", required=True, help="directory to write; it must not exist")
    parser.add_argument("--vocabulary", help="SentencePiece model (the one beside the checkpoint)")
    parser.add_argument("--config", help="JSON file with the config (the one beside the checkpoint)")
    parser.add_argument("--partial", action="store_true", help="load the encoder only; say what is fresh")
    parser.add_argument("--step", type=int, help="of a run's checkpoint (the newest)")


def _convert(flags: argparse.Namespace) -> None:
    done = convert(
        flags.source,
        flags.target,
        flags.input,
        flags.output,
        vocabulary=flags.vocabulary,
        config=flags.config,
        partial=flags.partial,
        command=flags.command_line,
        step=flags.step,
    )
    for what, names in (("not read", done.unread), ("fresh", done.fresh)):
        for name in names:
            print(f"{what}: {name}")


def _analyse_flags(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="analysis", required=True, metavar="WHAT")
    kinds.add_parser("parameters", help="a table of the presets' parameters")
    curve = kinds.add_parser("curve", help="the learning curve of a run")
    curve.add_argument("--run", required=True, help="run directory")
    curve.add_argument("--output", help="picture to write, .png, .svg or .pdf (curve.png of the run)")


def _analyse(flags: argparse.Namespace) -> None:
    if flags.analysis == "curve":
        from albert_tf.analysis.curve import draw_curve  # matplotlib is slow to import

        output = flags.output or Path(flags.run) / "curve.png"
        draw_curve(flags.run, output)
        print(output)
        return
    for name, config in PRESETS.items():
        counts = parameter_count(config)
        print(f"{name:20}" + "".join(f"{part} {count:>13,}  " for part, count in counts.items()).rstrip())


COMMANDS = {
    "vocab": Command("train a SentencePiece vocabulary", _vocab_flags, _vocab),
    "prepare": Command("text to tokenised documents, on Apache Beam", _prepare_flags, _prepare),
    "pretrain": Command("train a model, or resume", _pretrain_flags, _pretrain),
    "evaluate": Command("losses and accuracies on held-out text", _evaluate_flags, _evaluate),
    "convert": Command(
        "checkpoints of other implementations to run directories, and back", _convert_flags, _convert
    ),
    "analyse": Command("what a model is made of and how it learned", _analyse_flags, _analyse),
}
