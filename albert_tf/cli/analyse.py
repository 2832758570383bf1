"""`albert-tf analyse`: tables and plots of a model's parameters, learning curve and hidden states."""

from __future__ import annotations

import argparse
import codecs
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albert_tf.cli import flags as shared
from albert_tf.config import PRESETS
from albert_tf.errors import InputError, check_range
from albert_tf.io import check_new_local_folder
from albert_tf.signals import quiet_start

if TYPE_CHECKING:
    import numpy as np

    from albert_tf.runs.run_directory import RunDirectory

SUMMARY = "what a model is made of, how it learned, and what it does to text"

_LENGTH = 128  # tokens of a text by default
_ROWS = 8  # texts computed at once: memory holds the hidden states of all their layers


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds a subcommand for each analysis, with its flags."""
    kinds = parser.add_subparsers(dest="analysis", required=True, metavar="WHAT")
    parameters = kinds.add_parser("parameters", help="a table of the presets' parameters")
    against = "a preset or JSON file; a last column shows how many times as many parameters it has"
    parameters.add_argument("--against", metavar="CONFIG", help=against)
    parameters.set_defaults(analyse=_print_parameters)
    curve = kinds.add_parser("curve", help="the learning curve of a run")
    curve.add_argument("--run", required=True, help="run directory")
    curve.add_argument("--output", help="picture to write, .png, .svg or .pdf (curve.png of the run)")
    curve.set_defaults(analyse=_draw_curve)
    layers = kinds.add_parser("layers", help="how far each layer moves the hidden states of tokens")
    _add_text_flags(layers, _compare_layers, max_texts=256)
    layers.add_argument("--against", metavar="RUN", help="another run, to be drawn beside it")
    attention = kinds.add_parser("attention", help="the attention of each head, on a few texts")
    _add_text_flags(attention, _draw_attention, max_texts=4)
    exits = kinds.add_parser("exits", help="metrics, layers and time of a run whose texts may leave early")
    exits.add_argument("--run", required=True, help=shared.RUN_HELP)
    exits.add_argument("--data", metavar="DIR", help=shared.DATA_HELP)
    exits.add_argument("--eval", metavar="FILE", help="a file with labels (of all other tasks)")
    shared.add_column_flags(exits, " (as the run was trained)")
    exits.add_argument("--output", required=True, metavar="FOLDER", help="new folder for the table and plots")
    exits.add_argument("--step", type=int, help=shared.STEP_HELP)
    exits.add_argument("--batch_size", type=int, default=32, help="examples at a time (32)")
    exits.set_defaults(analyse=_report_exits)


def _add_text_flags(
    parser: argparse.ArgumentParser, analyse: Callable[[argparse.Namespace], None], max_texts: int
) -> None:
    parser.set_defaults(analyse=analyse)
    parser.add_argument("--run", required=True, help=shared.RUN_HELP)
    parser.add_argument("--step", type=int, help=shared.STEP_HELP)
    shared.add_paths_flag(parser, "--input", "text files, one text on each line")
    parser.add_argument("--output", required=True, help="folder to write, which is new or empty")
    text = f"the first ones are taken ({max_texts})"
    parser.add_argument("--max_texts", type=int, default=max_texts, metavar="N", help=text)
    parser.add_argument("--seq_length", type=int, help=f"tokens of a text at most ({_LENGTH})")


def run(flags: argparse.Namespace) -> None:
    """Prints a table, or writes files and prints their path."""
    flags.analyse(flags)


def _print_parameters(flags: argparse.Namespace) -> None:
    from albert_tf.models.sharing import parameter_count

    configs, against = dict(PRESETS), None
    if flags.against is not None:
        other = shared.resolve_config(flags.against, "--against")
        against = parameter_count(other)["total"]
        configs = {flags.against: other, **configs}
    width = max(map(len, configs)) + 2
    for name, config in configs.items():
        counts = parameter_count(config)
        cells = [f"{part} {count:>13,}" for part, count in counts.items()]
        cells += [f"{against / counts['total']:8.2f} ×"] if against else []
        print(f"{name:{width}}" + "  ".join(cells))


def _draw_curve(flags: argparse.Namespace) -> None:
    with quiet_start():
        from albert_tf.analysis.curve import draw_curve
        from albert_tf.filesystem import is_local
    run = shared.open_best_run(flags.run)
    if flags.output is None and not is_local(run.path):
        raise InputError(f"{run} is not on this machine: name a local file by --output")
    output = flags.output or Path(run.path) / "curve.png"
    draw_curve(run.path, output)
    print(output)


def _report_exits(flags: argparse.Namespace) -> None:
    check_new_local_folder(Path(flags.output))
    with quiet_start():
        from albert_tf.finetuning.reports import exit_report
        from albert_tf.report_folder import write_report
    run = shared.open_best_run(flags.run)
    options = {"step": flags.step, "batch_size": flags.batch_size, "columns": shared.provided_columns(flags)}
    report = exit_report(run, flags.data, flags.eval, **options)
    print("\n".join(report.tables[0].text()))
    print(write_report(Path(flags.output), f"Early exit of {run}", report))


def _compare_layers(flags: argparse.Namespace) -> None:
    check_new_local_folder(Path(flags.output))
    with quiet_start():
        from albert_tf.analysis.hidden_states import layer_changes, write_layers
    runs = {name: shared.open_best_run(name) for name in (flags.run, flags.against) if name is not None}
    changes = {}
    for name, run in runs.items():
        batches, _ = _encoder_inputs(flags, run)
        changes[name] = layer_changes(_load_encoder(run, flags.step if name == flags.run else None), batches)
    write_layers(changes, flags.output)
    print(flags.output)


def _draw_attention(flags: argparse.Namespace) -> None:
    check_new_local_folder(Path(flags.output))
    with quiet_start():
        from albert_tf.analysis.hidden_states import attention_maps, write_attention
        from albert_tf.constants import INPUT_MASK, WORD_IDS
    run = shared.open_best_run(flags.run)
    batches, names = _encoder_inputs(flags, run)
    encoder, maps, pieces = _load_encoder(run, flags.step), [], []
    for inputs in batches:
        rows = zip(inputs[INPUT_MASK], inputs[WORD_IDS], attention_maps(encoder, inputs), strict=True)
        for mask, ids, attention in rows:
            length = mask.sum()
            maps.append(attention[:, :, :length, :length])
            pieces.append([names[piece] for piece in ids[:length]])
    write_attention(maps, pieces, flags.output)
    print(flags.output)


def _load_encoder(run: RunDirectory, step: int | None) -> Any:
    """The encoder of a run's model."""
    from albert_tf.runs.load_save import load_checked

    return load_checked(run, step).encoder


def _encoder_inputs(
    flags: argparse.Namespace, run: RunDirectory
) -> tuple[Iterator[dict[str, np.ndarray]], Sequence[str]]:
    """Batches of the encoder's inputs, and the vocabulary's tokens in the order of their ids."""
    from albert_tf.inference.inputs import pack_texts, tokenize_inputs
    from albert_tf.text.files import check_text_files, input_files
    from albert_tf.text.lines import text_lines

    check_range("`max_texts`", flags.max_texts, at_least=1)
    longest = run.config.max_position_embeddings
    length = min(_LENGTH, longest) if flags.seq_length is None else flags.seq_length
    check_range("`seq_length`", length, at_least=3, at_most=longest)
    tokenizer = run.load_tokenizer()
    files = input_files(flags.input)
    check_text_files(files)
    rows = itertools.chain.from_iterable(text_lines(file).as_numpy_iterator() for file in files)
    lines = (row.removeprefix(codecs.BOM_UTF8).decode().strip() for row in rows)
    texts = list(itertools.islice(filter(None, lines), flags.max_texts))
    if not texts:
        raise InputError(f"{', '.join(files)}: no text in there")
    batches = (
        pack_texts(tokenize_inputs(texts[first : first + _ROWS], tokenizer, "input", length)[0], length)
        for first in range(0, len(texts), _ROWS)
    )
    return batches, tokenizer.vocabulary.pieces
