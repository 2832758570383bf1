"""Pre-training from text to a run directory; resuming; refusing what would spoil a run."""

import json
import os
import shutil
import signal

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import checkpoint_steps
from albert_tf.checkpoints.files import sole_use
from albert_tf.recipes import PretrainingRecipe
from albert_tf.training import loop
from albert_tf.training.evaluate import evaluate_run, unigram_entropy
from albert_tf.training.loop import LoopSettings, TrainingFailed
from albert_tf.training.losses import Term
from albert_tf.training.preemption import Preempted
from albert_tf.training.pretrain import Pretraining, held_out_batches, pretrain
from tests.tiny import TINY

RECIPE = PretrainingRecipe(
    learning_rate=0.01, batch_size=4, steps=6, warmup_steps=2, seq_length=32, max_predictions=5
)
# Dropout too must go on where it stopped.
CONFIG = TINY.replace(vocab_size=1, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)


@pytest.fixture(scope="module")
def settings(tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """Settings of a run, some of them changed."""

    def make(output=None, **changes) -> Pretraining:
        values = {
            "output": output or tmp_path_factory.mktemp("pretrain") / "run",
            "config": CONFIG,
            "recipe": RECIPE,
            "train": [str(tiny_corpus)],
            "eval": [str(tiny_corpus)],
            "vocabulary": tiny_vocabulary,
            "log_every": 2,
            "eval_every": 3,
            "checkpoint_every": 3,
            **changes,
        }
        return Pretraining(**values)

    return make


@pytest.fixture(scope="module")
def run(settings):
    """A run of six updates without interruption."""
    made = settings()
    pretrain(made)
    return made.output


def weights(run, step=None):
    return {variable.name: variable.numpy() for variable in albert_tf.load(run, step).variables}


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_run_directory_holds_what_others_read(run, tiny_vocabulary):
    assert {path.name for path in run.iterdir()} == {
        "config.json",
        "task.json",
        "spiece.model",
        "tokenizer.json",
        "recipe.json",
        "checkpoints",
        "metrics.jsonl",
        "tensorboard",
    }
    model = albert_tf.load(run)
    assert model.config == CONFIG.replace(vocab_size=TINY.vocab_size)
    assert model.sentence_objective == "sop"
    assert (run / "spiece.model").read_bytes() == tiny_vocabulary.read_bytes()
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["learning_rate"] == 0.01
    assert recipe["seed"] == 0
    assert set(recipe["versions"]) == {"python", "tensorflow", "tensorflow-text", "tf_keras"}
    assert checkpoint_steps(run) == [3, 6]
    assert list((run / "tensorboard").iterdir())


def test_metrics_have_their_names(run):
    training = [line for line in metrics(run) if "loss" in line]
    evaluation = [line for line in metrics(run) if "eval_loss" in line]
    assert [line["step"] for line in training] == [2, 4, 6]
    assert [line["step"] for line in evaluation] == [3, 6]
    assert set(training[0]) == {
        "step", "loss", "mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy", "learning_rate",
        "gradient_norm", "examples_per_second",
    }  # fmt: skip
    assert set(evaluation[0]) == {
        "step", "eval_loss", "eval_mlm_loss", "eval_mlm_accuracy", "eval_sop_loss", "eval_sop_accuracy"
    }  # fmt: skip
    np.testing.assert_allclose(
        [line["learning_rate"] for line in training], [0.005, 0.01 * 3 / 6, 0.01 * 1 / 6], rtol=1e-6
    )
    for line in training:
        np.testing.assert_allclose(line["loss"], line["mlm_loss"] + line["sop_loss"], rtol=1e-6)


def test_a_resumed_run_ends_with_the_same_weights(run, settings):
    stopped = settings(recipe=RECIPE.replace(steps=6), checkpoint_every=2)
    original = loop.write_checkpoint

    def die_after_four(folder, step, /, **parts):
        original(folder, step, **parts)
        if step == 4:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "write_checkpoint", die_after_four)
        with pytest.raises(KeyboardInterrupt):
            pretrain(stopped)
    assert checkpoint_steps(stopped.output) == [2, 4]
    pretrain(stopped)
    expected, found = weights(run), weights(stopped.output)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    steps = [line["step"] for line in metrics(stopped.output) if "loss" in line]
    assert steps == [2, 4, 6]


def test_sigterm_saves_and_the_same_settings_resume(run, settings, monkeypatch):
    made = settings(log_every=1, checkpoint_every=100)
    record = loop.Logbook.record

    def terminate(self, step, figures):
        record(self, step, figures)
        if step == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(loop.Logbook, "record", terminate)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Preempted, match="after step 2"):
        pretrain(made)
    assert signal.getsignal(signal.SIGTERM) is before
    assert checkpoint_steps(made.output) == [2]
    monkeypatch.undo()
    pretrain(made)
    expected, found = weights(run), weights(made.output)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_more_steps_go_on_and_old_checkpoints_go(run, settings):
    made = settings(recipe=RECIPE.replace(steps=3), checkpoint_every=1, keep=2)
    pretrain(made)
    assert checkpoint_steps(made.output) == [2, 3]
    pretrain(settings(made.output, recipe=RECIPE.replace(steps=5), checkpoint_every=1, keep=2))
    assert checkpoint_steps(made.output) == [4, 5]


def test_a_run_in_use_is_left_alone(run, settings):
    with sole_use(run), pytest.raises(BlockingIOError, match="in use by another process"):
        pretrain(settings(run))


def test_fewer_steps_than_there_are_is_refused(run, settings):
    recipe = (run / "recipe.json").read_text()
    with pytest.raises(ValueError, match="is at step 6 already: --steps 4 is less than that"):
        pretrain(settings(run, recipe=RECIPE.replace(steps=4)))
    assert (run / "recipe.json").read_text() == recipe


def test_a_damaged_checkpoint_names_the_remedy(run, settings, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    data = copy / "checkpoints" / "ckpt-6.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"ckpt-6.*Remove ckpt-6\.\* to go on"):
        pretrain(settings(copy))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": RECIPE.replace(learning_rate=0.02)}, "learning_rate is 0.01 there and 0.02 here"),
        ({"seed": 7}, "seed is 0 there and 7 here"),
        ({"config": CONFIG.replace(num_hidden_layers=2)}, "num_hidden_layers is 3 there and 2 here"),
        ({"lowercase": False}, "lowercase is True there and False here"),
    ],
)
def test_other_settings_are_refused(run, settings, changes, message):
    with pytest.raises(ValueError, match=message):
        pretrain(settings(run, **changes))
    assert checkpoint_steps(run) == [3, 6]


def test_nothing_is_written_where_there_is_nothing_to_learn_from(settings, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    single = tmp_path / "single.txt"
    single.write_text("A document alone cannot be held out.\nNot even a hundredth of it.\n")
    with pytest.raises(ValueError, match=r"1% is held out.*name other text by --eval"):
        pretrain(settings(tmp_path / "run", eval=None, train=[str(single)]))
    with pytest.raises(ValueError, match="optimizer='sgd' is none of"):
        pretrain(settings(tmp_path / "run", recipe=RECIPE.replace(optimizer="sgd")))
    for changes in ({"train": [str(empty)]}, {"eval": [str(empty)]}, {"eval": None, "train": [str(empty)]}):
        with pytest.raises(ValueError, match="no text"):
            pretrain(settings(tmp_path / "run", **changes))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        pretrain(settings(tmp_path / "run", train=["nowhere.txt"]))
    with pytest.raises(ValueError, match=r"seq_length=128 is more than max_position_embeddings=64"):
        pretrain(settings(tmp_path / "run", recipe=RECIPE.replace(seq_length=128)))
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_no_number_stops_the_run(settings):
    made = settings(
        recipe=RECIPE.replace(learning_rate=1e38, warmup_steps=0), log_every=1, checkpoint_every=1
    )
    with pytest.raises(
        TrainingFailed, match=r"between step \d and step \d; .* --output and a lower --learning_rate"
    ):
        pretrain(made)


def test_held_out_examples_are_the_same_whatever_the_seed(settings):
    first, second = (list(held_out_batches(settings(seed=seed))) for seed in (0, 5))
    for a, b in zip(first, second, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def test_evaluate_run(run, settings, tiny_corpus):
    figures = evaluate_run(run, [str(tiny_corpus)], batch_size=4)
    last = metrics(run)[-1]
    for name in ("eval_mlm_loss", "eval_sop_loss", "eval_mlm_accuracy"):
        np.testing.assert_allclose(figures[name], last[name], rtol=1e-5)
    np.testing.assert_allclose(figures["eval_mlm_perplexity"], np.exp(figures["eval_mlm_loss"]), rtol=1e-6)
    masked = np.concatenate(
        [
            batch["masked_lm_ids"].numpy()[batch["masked_lm_weights"].numpy() > 0]
            for batch in held_out_batches(settings())
        ]
    )
    shares = np.unique(masked, return_counts=True)[1] / len(masked)
    entropy = -(shares * np.log(shares)).sum()
    np.testing.assert_allclose(figures["eval_mlm_unigram_entropy"], entropy, rtol=1e-6)
    some = evaluate_run(run, [str(tiny_corpus)], batch_size=4, max_examples=4)
    assert some["eval_mlm_loss"] != figures["eval_mlm_loss"]


def test_unigram_entropy_of_two_equal_tokens_is_log_two():
    batch = {
        "masked_lm_ids": np.array([[7, 9, 0]]),
        "masked_lm_weights": np.array([[1.0, 1.0, 0.0]]),
    }
    np.testing.assert_allclose(unigram_entropy([batch]), np.log(2))


@pytest.mark.parametrize("changes", [{"steps": 0}, {"steps": 5, "keep": 0}, {"steps": 5, "log_every": -1}])
def test_impossible_intervals_are_refused(changes):
    with pytest.raises(ValueError, match="must be at least"):
        LoopSettings(**changes)


def test_calls_end_where_something_is_due():
    settings = LoopSettings(steps=25, log_every=4, eval_every=6, checkpoint_every=0)
    step, ends = 0, []
    while step < 25:
        step += settings.updates_until_next(step)
        ends.append(step)
    assert ends == [4, 6, 8, 12, 16, 18, 20, 24, 25]


def test_interval_is_the_mean_of_its_updates():
    interval = loop.Interval()
    totals = loop.Totals({"mlm": Term(6.0, 1.0, 4.0)}, gradient_norm=2.0)
    interval.add(totals, examples=10, seconds=1.0)
    interval.add(totals._replace(gradient_norm=3.0), examples=10, seconds=3.0)
    assert interval.figures() == {
        "loss": 1.5,
        "mlm_loss": 1.5,
        "mlm_accuracy": 0.25,
        "gradient_norm": 3.0,
        "examples_per_second": 5.0,
    }
