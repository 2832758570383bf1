"""The smallest setting of the benchmarks, `--smoke`: within seconds it shows that a command works.

The printed figures mean nothing. tests/benchmarks/test_smoke.py runs every benchmark so.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import albert_tf
from albert_tf.tasks.glue import GLUE

PRESET = "smoke"
VOCABULARY_SIZE, _WORDS = 1000, 20_000
_SYLLABLES = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]


def create_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser whose --help prints a module's docstring line by line."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)


def read_flags(parser: argparse.ArgumentParser, **smallest: Any) -> argparse.Namespace:
    """Reads the command line of a benchmark.

    Args:
      parser: parser of its flags. `--smoke` is added, which also adds PRESET to the presets.
      smallest: defaults of flags under `--smoke`: a value, a sequence of values, or a function that returns
        the value.
    """
    parser.add_argument("--smoke", action="store_true", help="the smallest setting, to see that it works")
    defaults, arguments = [], sys.argv[1:]
    if "--smoke" in arguments:
        albert_tf.PRESETS[PRESET] = albert_tf.PRESETS["albert_base_v2"].replace(
            vocab_size=VOCABULARY_SIZE, embedding_size=16, hidden_size=32, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=64,
        )  # fmt: skip
        for name, value in smallest.items():
            value = value() if isinstance(value, Callable) else value
            items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
            defaults += [f"--{name}", *map(str, items)]
    return parser.parse_args([*defaults, *arguments])


@functools.cache
def _scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that is removed when the program ends."""
    return tempfile.TemporaryDirectory(prefix="smoke-")


def _new_path(name: str) -> Path:
    """A path with a name, at which nothing exists yet."""
    return Path(tempfile.mkdtemp(dir=_scratch_folder().name), name)


def output_folder() -> Path:
    """The path of a folder that does not exist yet."""
    return _new_path("output")


def sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences of made-up words."""
    draw = random.Random(0)
    words = ["".join(draw.choices(_SYLLABLES, k=draw.randint(2, 4))) for _ in range(_WORDS)]
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(5, 15))).capitalize() + "." for _ in range(count)]


@functools.cache
def text_file() -> Path:
    """A text file, a sentence a line, with blank lines between documents."""
    path, lines = _new_path("text.txt"), sentences(4000)
    path.write_text("".join(f"{line}\n{'' if n % 8 else chr(10)}" for n, line in enumerate(lines, start=1)))
    return path


@functools.cache
def vocabulary() -> Path:
    """A SentencePiece model, trained on `text_file()`."""
    from albert_tf.text.vocabulary_training import train_vocabulary

    train_vocabulary(text_file(), path := _new_path("spiece.model"), vocab_size=VOCABULARY_SIZE)
    return path


@functools.cache
def pretrained_run() -> Path:
    """A pre-trained run with random weights."""
    model = albert_tf.AlbertPretrainer(albert_tf.PRESETS[PRESET])
    albert_tf.save(model, path := _new_path("pretrained"), vocabulary())
    return path


@functools.cache
def bert_run() -> Path:
    """A BERT encoder's run with random weights."""
    config = albert_tf.PRESETS[PRESET]
    model = albert_tf.AlbertEncoder(config.replace(embedding_size=config.hidden_size, sharing="none"))
    albert_tf.save(model, path := _new_path("bert"), vocabulary())
    return path


@functools.cache
def glue() -> Path:
    """A folder with SST-2, STS-B, MRPC and RTE."""
    folder = sst2().parent
    for task, labels in (("sts-b", "012345"), ("mrpc", "01"), ("rte", ("entailment", "not_entailment"))):
        columns = GLUE[task].columns.names.values()
        (task_folder := folder / GLUE[task].name).mkdir()
        for seed, split in enumerate(("train", "dev"), start=1):
            rows = [
                [first, second, labels[number % len(labels)], str(number)]
                for number, (first, second) in enumerate(
                    zip(sentences(8, seed), sentences(8, seed + 1), strict=True)
                )
            ]
            lines = ["\t".join(cells) for cells in (columns, *rows)]
            (task_folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


@functools.cache
def sst2() -> Path:
    """A folder with the files of SST-2."""
    folder = _new_path("SST-2")
    folder.mkdir()
    for seed, name in enumerate(("train", "dev")):
        rows = [f"{line}\t{number % 2}\n" for number, line in enumerate(sentences(40, seed))]
        (folder / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    return folder


@functools.cache
def imdb() -> Path:
    """A folder with the files of IMDB."""
    folder = _new_path("imdb")
    for seed, (split, label) in enumerate(itertools.product(("train", "test"), ("neg", "pos"))):
        (folder / split / label).mkdir(parents=True)
        for number, line in enumerate(sentences(8, seed)):
            (folder / split / label / f"{number}_1.txt").write_text(line)
    return folder
