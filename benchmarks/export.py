"""Time of an exported model, compared with the model in memory.

    python -m benchmarks.export --vocabulary spiece.model

Exports a network with random weights, and prints three comparisons as Markdown: the encoder in hub.KerasLayer
with the model in memory; text through the serving signature with the preprocessor and the encoder called one
after the other; and the time from loading to the first answer, in fresh processes. The two sides of a ratio
take turns in one process; the ratio is the median of the ratios of the turns.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
import tensorflow_hub as hub

import albert_tf
from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.random_data import random_inputs
from benchmarks.timers import time_in_turns
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
        print_header("what", "batch", "ms", "ms of the other", "ratio")
        for batch in options.batch_sizes:
            compare_encoders(model, output, batch, options.rounds)
        for batch in options.batch_sizes:
            for title, text in TEXTS.items():
                compare_text_to_output(output, title, [text] * batch, options.rounds)
        print()
        print_header("module", "loaded after, s", "first answer after, s")
        for name, path in (("encoder", output / "encoder"), ("serving", output / "serving/1")):
            seconds = time_first_answer(path, name, min(options.rounds, 3))
            print_row(name, *(f"{x:.1f}" for x in seconds))


def compare_encoders(model: albert_tf.AlbertEncoder, output: Path, batch: int, rounds: int) -> None:
    """Times the exported encoder in hub.KerasLayer and the model in memory, both in a tf.function.

    The model in memory, compared with itself, shows how exact the ratio is.
    """
    arrays = random_inputs(batch, SEQ_LENGTH, model.config.vocab_size)
    inputs = {name: tf.constant(array) for name, array in arrays.items()}
    layer = hub.KerasLayer(str(output / "encoder"))
    exported, memory, control = (
        tf.function(lambda inputs, call=call: call(inputs, training=False)["sequence_output"])
        for call in (layer, model, model)
    )
    print_ratio("encoder in KerasLayer / model in memory", batch, exported, memory, inputs, rounds)
    print_ratio("control: model in memory / itself", batch, control, memory, inputs, rounds)


def compare_text_to_output(output: Path, title: str, texts: list[str], rounds: int) -> None:
    """Times texts to pooled outputs by the serving signature, and by the two modules one after the other."""
    preprocessor, encoder = (tf.saved_model.load(str(output / name)) for name in ("preprocessor", "encoder"))
    signature = tf.saved_model.load(str(output / "serving/1")).signatures["serving_default"]

    def serve(text: tf.Tensor) -> tf.Tensor:
        return signature(text=text)["pooled_output"]

    def chain_modules(text: tf.Tensor) -> tf.Tensor:
        return encoder(preprocessor(text))["pooled_output"]

    title = f"serving signature / preprocessor + encoder, {title}"
    print_ratio(title, len(texts), serve, chain_modules, tf.constant(texts), rounds)


def print_ratio(
    title: str, batch: int, first: Callable, second: Callable, argument: object, rounds: int
) -> None:
    """Times two functions in turns, and prints a row of the first table."""
    calls = [lambda call=call: call(argument).numpy() for call in (first, second)]
    seconds = time_in_turns(calls, rounds, WARM_UP, alternate=True)
    ratio = statistics.median(a / b for a, b in zip(*seconds, strict=True))
    medians = (f"{1000 * statistics.median(times):.1f}" for times in seconds)
    print_row(title, f"{batch}", *medians, f"{ratio:.3f}")


def time_first_answer(folder: Path, kind: str, rounds: int) -> list[float]:
    """Median seconds until a module is loaded, and until its first answer, in fresh processes."""
    command = [sys.executable, "-c", FIRST_ANSWER, str(folder), kind]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(rounds)
    ]
    return [statistics.median(map(float, column)) for column in zip(*runs, strict=True)]


if __name__ == "__main__":
    main()
