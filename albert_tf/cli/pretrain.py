"""`albert-tf pretrain`: text or prepared documents to a run directory."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from albert_tf.choices import AUTO, POLICIES, STRATEGY_NAMES
from albert_tf.cli.flags import TEXT, field_flags, given, paths_flag, tokenizer_flags, tokenizer_given
from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.recipes import DEFAULT_RECIPE, RECIPES, PretrainingRecipe
from albert_tf.startup import quiet_start
from albert_tf.tokenizer_settings import resolved_settings
from albert_tf.training.loop_settings import LoopSettings

SUMMARY = "train a model, or resume"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--config", required=True, help=f"a JSON file, or one of {', '.join(PRESETS)}")
    paths_flag(parser, "--train", TEXT)
    held_out = "to evaluate on (what prepare has held out, or else 1 %% of the documents)"
    paths_flag(parser, "--eval", held_out, required=False)
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model; it sets vocab_size")
    parser.add_argument("--output", required=True, help="run directory; resumed where it holds checkpoints")
    parser.add_argument(
        "--recipe",
        choices=RECIPES,
        metavar="NAME",
        help=f"hyper-parameters (the preset's, else {DEFAULT_RECIPE}): {', '.join(RECIPES)}",
    )
    field_flags(parser, PretrainingRecipe, default="the recipe's")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (0)")
    parser.add_argument("--init_from", metavar="RUN", help="run of the same widths to take the weights from")
    parser.add_argument(
        "--extend_positions", action="store_true", help="start further positions than RUN has at random"
    )
    _execution_flags(parser)
    field_flags(parser, LoopSettings)
    tokenizer_flags(parser)


def _execution_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strategy",
        default=AUTO,
        choices=[AUTO, *STRATEGY_NAMES],
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


def run(flags: argparse.Namespace) -> None:
    """Trains."""
    with quiet_start():
        from albert_tf.training.pretrain import pretrain
        from albert_tf.training.settings import Pretraining
    name = flags.recipe or (flags.config if flags.config in RECIPES else DEFAULT_RECIPE)
    recipe = RECIPES[name].replace(**given(flags, PretrainingRecipe))
    taken = {"config", "recipe", "command", *(field.name for field in dataclasses.fields(LoopSettings))}
    vars(flags).update(resolved_settings(flags.vocabulary, tokenizer_given(flags)))
    same = {f.name: getattr(flags, f.name) for f in dataclasses.fields(Pretraining) if f.name not in taken}
    loop = {name: value for name, value in given(flags, LoopSettings).items() if name != "steps"}
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
