"""How much time do batches of similar length save? SST-2 in buckets, and padded to 128 tokens.

    python -m benchmarks.bucketing --data glue/SST-2 --vocabulary spiece.model

Makes the batches of an epoch as `finetune` does: batches of similar length (buckets), and batches padded to
one length. The lengths take turns; an update (forward, backward and AdamW) is timed at each of them. The time
of an epoch is the sum over its batches. The first update at each length, which traces, is not timed. Prints a
table as Markdown, and the ratio of the two epochs.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Callable

import tensorflow as tf

import albert_tf
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES
from albert_tf.optimization import create_optimizer
from albert_tf.tasks.batches import task_batches
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.examples import TokenizedExamples
from albert_tf.tasks.glue import GLUE, read_glue_split
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.training.train_step import Batch, TrainStep
from benchmarks import smoke
from benchmarks.markdown_tables import format_range, print_header, print_row
from benchmarks.timers import time_in_turns

TASK = "sst-2"
PADDED = 128  # tokens


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--data", required=True, help="folder of SST-2")
    parser.add_argument("--vocabulary", required=True, help="SentencePiece model")
    parser.add_argument("--preset", default="albert_base_v2", help="(albert_base_v2)")
    parser.add_argument(
        "--batch_size", type=int, default=FINETUNING_RECIPES[TASK].batch_size, help="(the paper's)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="updates at each length (3)")
    flags = smoke.read_flags(
        parser, data=smoke.sst2, vocabulary=smoke.vocabulary, preset=smoke.PRESET, rounds=1
    )
    records = read_glue_split(TASK, flags.data, "train")
    task = Classification({"labels": GLUE[TASK].labels})
    rows = task.encode(records, open_tokenizer(flags.vocabulary), True).rows
    counts, batches = count_batches(rows, flags.batch_size)
    seconds = time_updates(create_update_fn(flags.preset), batches, flags.rounds)
    print_epoch_times(counts, seconds, flags.batch_size)


def count_batches(rows: TokenizedExamples, batch_size: int) -> tuple[dict[int, int], dict[int, Batch]]:
    """The number of batches of each length in an epoch, and a batch of each length and of PADDED tokens."""
    counts: collections.Counter[int] = collections.Counter()
    examples: dict[int, Batch] = {}
    for batch in task_batches(rows, PADDED, batch_size, repeat=False):
        length = batch["input_word_ids"].shape[1]
        counts[length] += 1
        examples.setdefault(length, batch)
    examples[PADDED] = next(iter(task_batches(rows, PADDED, batch_size, [PADDED])))
    return dict(sorted(counts.items())), dict(sorted(examples.items()))


def create_update_fn(preset: str) -> Callable[[Batch], tf.Tensor]:
    """A function that updates a new classifier by a batch, as the trainer does, and returns the loss."""
    config = FINETUNING_RECIPES[TASK].apply_dropout(albert_tf.PRESETS[preset])
    model = albert_tf.AlbertClassifier(config, num_labels=2, fused=True)
    optimizer = create_optimizer("adamw", init_lr=1e-5, num_train_steps=1000, num_warmup_steps=100)
    optimizer.build(model.trainable_variables)
    loss_fn = Classification({"labels": GLUE[TASK].labels}).loss_fn()
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    train_step = TrainStep(model, optimizer, loss_fn, {}, step=step, seed=0)
    strategy = tf.distribute.get_strategy()

    @tf.function(reduce_retracing=True)
    def update(batch: Batch) -> tf.Tensor:
        terms, _ = strategy.run(train_step.replica_step, (batch, tf.constant([1, 2])))
        return terms["label"].loss

    return update


def time_updates(
    update: Callable[[Batch], tf.Tensor], batches: dict[int, Batch], rounds: int
) -> dict[int, list[float]]:
    """The seconds of updates, by the length of their batches."""
    updates = [lambda batch=batch: float(update(batch)) for batch in batches.values()]
    return dict(zip(batches, time_in_turns(updates, rounds, warm_up=1), strict=True))


def print_epoch_times(counts: dict[int, int], seconds: dict[int, list[float]], batch_size: int) -> None:
    """Prints a row for each length, and the time of both epochs."""
    print_header("tokens", "batches an epoch", "seconds an update, median (all)")
    for length, times in seconds.items():
        print_row(f"{length}", f"{counts.get(length, 0)}", format_range(times, ".2f"))
    bucketed = sum(count * statistics.median(seconds[length]) for length, count in counts.items())
    batches = sum(counts.values())
    padded = batches * statistics.median(seconds[PADDED])
    print(
        f"\n{batches} batches of {batch_size}: {bucketed / 60:.0f} minutes in buckets, "
        f"{padded / 60:.0f} padded to {PADDED} tokens: {padded / bucketed:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
