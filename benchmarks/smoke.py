"""The smallest setting of the benchmarks, `--smoke`: in seconds it shows that a command still works.

Its figures mean nothing. tests/benchmarks/test_smoke.py runs each of them.
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


def read_flags(parser: argparse.ArgumentParser, **smallest: Any) -> argparse.Namespace:
    """The flags of a command.

    Args:
      parser: it gets `--smoke`.
      smallest: values of flags that are not given with `--smoke`; a function makes its value then, and of a
        sequence each item is a word. Presets have PRESET, too.
    """
    parser.add_argument("--smoke", action="store_true", help="the smallest setting, to see that it works")
    words, given = [], sys.argv[1:]
    if "--smoke" in given:
        albert_tf.PRESETS[PRESET] = albert_tf.PRESETS["albert_base_v2"].replace(
            vocab_size=VOCABULARY_SIZE, embedding_size=16, hidden_size=32, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=64,
        )  # fmt: skip
        for name, value in smallest.items():
            value = value() if isinstance(value, Callable) else value
            items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
            words += [f"--{name}", *map(str, items)]
    return parser.parse_args([*words, *given])


@functools.cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """A folder that is there as long as the program runs."""
    return tempfile.TemporaryDirectory(prefix="smoke-")


def folder(name: str = "output") -> Path:
    """A new folder to write; nobody has made it yet."""
    return Path(tempfile.mkdtemp(dir=_place().name), name)


def sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences of words that nobody knows."""
    draw = random.Random(0)
    words = ["".join(draw.choices(_SYLLABLES, k=draw.randint(2, 4))) for _ in range(_WORDS)]
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(5, 15))).capitalize() + "." for _ in range(count)]


@functools.cache
def text() -> Path:
    """A text file, a sentence a line, with blank lines between its documents."""
    path, lines = folder("text.txt"), sentences(4000)
    path.write_text("".join(f"{line}\n{'' if n % 8 else chr(10)}" for n, line in enumerate(lines, start=1)))
    return path


@functools.cache
def vocabulary() -> Path:
    """A SentencePiece model of that text."""
    from albert_tf.text.vocabulary_training import train_vocabulary

    train_vocabulary(text(), path := folder("spiece.model"), vocab_size=VOCABULARY_SIZE)
    return path


@functools.cache
def pretrained_run() -> Path:
    """A run of random weights."""
    model = albert_tf.AlbertPretrainer(albert_tf.PRESETS[PRESET])
    albert_tf.save(model, path := folder("pretrained"), vocabulary())
    return path


@functools.cache
def bert_run() -> Path:
    """The run of a BERT of random weights, without a head."""
    config = albert_tf.PRESETS[PRESET]
    model = albert_tf.AlbertEncoder(config.replace(embedding_size=config.hidden_size, sharing="none"))
    albert_tf.save(model, path := folder("bert"), vocabulary())
    return path


@functools.cache
def glue() -> Path:
    """A folder with SST-2, STS-B, MRPC and RTE."""
    place = sst2().parent
    for task, labels in (("sts-b", "012345"), ("mrpc", "01"), ("rte", ("entailment", "not_entailment"))):
        columns = GLUE[task].columns.names.values()
        (folder_of_task := place / GLUE[task].name).mkdir()
        for seed, part in enumerate(("train", "dev"), start=1):
            rows = [
                [one, other, labels[number % len(labels)], str(number)]
                for number, (one, other) in enumerate(
                    zip(sentences(8, seed), sentences(8, seed + 1), strict=True)
                )
            ]
            lines = ["\t".join(cells) for cells in (columns, *rows)]
            (folder_of_task / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return place


@functools.cache
def sst2() -> Path:
    """A folder with files as those of SST-2."""
    place = folder("SST-2")
    place.mkdir()
    for seed, name in enumerate(("train", "dev")):
        rows = [f"{line}\t{number % 2}\n" for number, line in enumerate(sentences(40, seed))]
        (place / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    return place


@functools.cache
def imdb() -> Path:
    """A folder with files as those of IMDB."""
    place = folder("imdb")
    for seed, (part, label) in enumerate(itertools.product(("train", "test"), ("neg", "pos"))):
        (place / part / label).mkdir(parents=True)
        for number, line in enumerate(sentences(8, seed)):
            (place / part / label / f"{number}_1.txt").write_text(line)
    return place
