"""CPU time of XLA's compilation of a small network's forward and backward pass, and of a later call.

    python -m benchmarks.compilation
    TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=FOLDER python -m benchmarks.compilation

Type the second command twice: the first run fills the folder, and the second reads the compiled program from
it.
"""

from __future__ import annotations

import statistics
import time

import tensorflow as tf

import albert_tf
from albert_tf.pretraining.loss import pretraining_loss_fn
from benchmarks import smoke
from benchmarks.timers import time_calls
from benchmarks.update import random_update_batch

BATCH, LENGTH, VOCABULARY = 8, 64, 1000


def main() -> None:
    """Prints the times."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--calls", type=int, default=11, help="calls after the first (11)")
    flags = smoke.read_flags(parser, calls=1)
    config = albert_tf.PRESETS["albert_base_v2"].replace(
        vocab_size=VOCABULARY, num_hidden_layers=4, hidden_size=256, num_attention_heads=4,
        intermediate_size=1024,
    )  # fmt: skip
    model, loss_fn = albert_tf.AlbertPretrainer(config), pretraining_loss_fn("sop")
    arrays = random_update_batch(BATCH, LENGTH, VOCABULARY)
    batch = {name: tf.constant(array) for name, array in arrays.items()}

    @tf.function(autograph=False, jit_compile=True)
    def gradients() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            terms = loss_fn.terms(model(batch, training=True, seed=tf.constant([1, 2])), batch)
            loss = tf.add_n([term.loss for term in terms.values()])
        return [tf.convert_to_tensor(x) for x in tape.gradient(loss, model.trainable_variables)]

    gradients.get_concrete_function()  # traces
    first, *later = time_calls(gradients, 1 + flags.calls, clock=time.process_time)
    print(f"first call {first:.2f} s, later ones {statistics.median(later):.2f} s of CPU time")


if __name__ == "__main__":
    main()
