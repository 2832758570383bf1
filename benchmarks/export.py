"""What an exported model costs beside the model in memory.

    python -m benchmarks.export --vocabulary spiece.model

Exports a network with random weights, and prints three things as Markdown: the time
of its encoder in hub.KerasLayer by that of the model in memory; the time of text through the serving
signature by that of the preprocessor and the encoder called by hand; and the time from loading to the first
answer, in fresh processes. The two sides of a ratio take turns in one process; the ratio is the median of
the ratios of the turns.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
import tensorflow_hub as hub

import albert_tf
from benchmarks import smoke
from hub_export.export import export

SEQ_LENGTH = 128
WARM_UP = 5

TEXTS = {
    "128 tokens": "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. " * 12,
    "about 10 tokens": "The quick brown fox jumps.",
}

FIRST_ANSWER = """
import sys, time
import tensorflow as tf
import tensorflow_text
started = time.perf_counter()
module = tf.saved_model.load(sys.argv[1])
loaded = time.perf_counter()
if sys.argv[2] == "encoder":
    module({name: tf.ones([1, 128], tf.int32) for name in ("input_word_ids", "input_mask", "input_type_ids")})
else:
    module.signatures["serving_default"](text=tf.constant(["The quick brown fox."]))
print(loaded - started, time.perf_counter() - started)
"""


def main() -> None:
    """Prints the three tables."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model of up to 30,000 pieces")
    parser.add_argument("--preset", default="albert_base_v2", help="(albert_base_v2)")
    parser.add_argument("--rounds", type=int, default=60, help="turns of each pair (60)")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 8], help="(1 8)")
    options = smoke.read_flags(
        parser, vocabulary=smoke.vocabulary, preset=smoke.PRESET, rounds=1, batch_sizes=1
    )
    with tempfile.TemporaryDirectory() as folder:
        run, output = Path(folder) / "run", Path(folder) / "out"
        model = albert_tf.AlbertEncoder(albert_tf.PRESETS[options.preset])
        albert_tf.save(model, run, vocabulary=options.vocabulary)
        export(run, output, seq_length=SEQ_LENGTH, check=False)
        print("| what | batch | ms | ms of the other | ratio |\n|---|---|---|---|---|")
        for batch in options.batch_sizes:
            compare_encoders(model, output, batch, options.rounds)
        for batch in options.batch_sizes:
            for title, text in TEXTS.items():
                compare_paths(output, title, [text] * batch, options.rounds)
        print("\n| module | loaded after, s | first answer after, s |\n|---|---|---|")
        for name, path in (("encoder", output / "encoder"), ("serving", output / "serving/1")):
            cells = [f"{seconds:.1f}" for seconds in first_answer(path, name, min(options.rounds, 3))]
            print(f"| {name} | {' | '.join(cells)} |")


def compare_encoders(model: albert_tf.AlbertEncoder, output: Path, batch: int, rounds: int) -> None:
    """The exported encoder in hub.KerasLayer, and the model in memory, both in a tf.function.

    The model beside itself says how far the ratio is to be trusted.
    """
    inputs = {
        "input_word_ids": tf.random.uniform([batch, SEQ_LENGTH], 5, model.config.vocab_size, tf.int32),
        "input_mask": tf.ones([batch, SEQ_LENGTH], tf.int32),
        "input_type_ids": tf.zeros([batch, SEQ_LENGTH], tf.int32),
    }
    layer = hub.KerasLayer(str(output / "encoder"))
    exported, memory, control = (
        tf.function(lambda inputs, call=call: call(inputs, training=False)["sequence_output"])
        for call in (layer, model, model)
    )
    report("encoder in KerasLayer / model in memory", batch, *paired(exported, memory, inputs, rounds))
    report("control: model in memory / itself", batch, *paired(control, memory, inputs, rounds))


def compare_paths(output: Path, title: str, texts: list[str], rounds: int) -> None:
    """Text to pooled output: the serving signature, and the two modules one after the other."""
    preprocessor, encoder = (tf.saved_model.load(str(output / name)) for name in ("preprocessor", "encoder"))
    serve = tf.saved_model.load(str(output / "serving/1")).signatures["serving_default"]

    def served(text: tf.Tensor) -> tf.Tensor:
        return serve(text=text)["pooled_output"]

    def by_hand(text: tf.Tensor) -> tf.Tensor:
        return encoder(preprocessor(text))["pooled_output"]

    what = f"serving signature / preprocessor + encoder, {title}"
    report(what, len(texts), *paired(served, by_hand, tf.constant(texts), rounds))


def paired(first: Callable, second: Callable, argument: object, rounds: int) -> tuple[list, list]:
    """The seconds of two functions that take turns."""
    for _ in range(WARM_UP):
        first(argument), second(argument)
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds):
        # Who goes first alternates, so that neither always finds the caches of the other.
        for side in (0, 1) if turn % 2 else (1, 0):
            started = time.perf_counter()
            (first, second)[side](argument).numpy()
            times[side].append(time.perf_counter() - started)
    return times


def report(what: str, batch: int, ours: list[float], theirs: list[float]) -> None:
    """One row of the first table."""
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    columns = [f"{1000 * statistics.median(times):.1f}" for times in (ours, theirs)]
    print(f"| {what} | {batch} | {columns[0]} | {columns[1]} | {ratio:.3f} |", flush=True)


def first_answer(folder: Path, kind: str, rounds: int) -> list[float]:
    """Seconds to load a module and to its first answer, in fresh processes, the medians."""
    command = [sys.executable, "-c", FIRST_ANSWER, str(folder), kind]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(rounds)
    ]
    return [statistics.median(map(float, column)) for column in zip(*runs, strict=True)]


if __name__ == "__main__":
    main()
