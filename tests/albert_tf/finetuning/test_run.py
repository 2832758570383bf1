"""Fine-tuning from labelled examples to a run directory, against its updates written out."""

import hashlib
import json

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import f1_score

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.optimization import create_optimizer
from albert_tf.runs.build_model import build_model
from albert_tf.runs.checkpoints import checkpoint_parts, checkpoint_steps
from albert_tf.tasks.batches import task_batches
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.columns import Columns
from albert_tf.training.distribution import STRATEGIES
from tests.albert_tf.finetuning.runs import CONFIG, LOOP, RECIPE, ROWS
from tests.albert_tf.pretraining.runs import metrics, weights
from tests.tiny import TINY

COLUMNS = Columns("text", None, "kind")
PLAIN = {**RECIPE, "dropout": 0.0, "classifier_dropout": 0.0}


def test_run_directory_holds_what_others_read(finetuned, tiny_vocabulary):
    assert {path.name for path in finetuned.iterdir()} == {
        "config.json", "task.json", "spiece.model", "tokenizer.json", "recipe.json", "checkpoints",
        "metrics.jsonl", "tensorboard",
    }  # fmt: skip
    model = albert_tf.load(finetuned)
    assert type(model) is albert_tf.AlbertClassifier
    assert model.config == CONFIG.replace(
        vocab_size=TINY.vocab_size, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    assert (finetuned / "spiece.model").read_bytes() == tiny_vocabulary.read_bytes()
    assert json.loads((finetuned / "task.json").read_text()) == {
        "model": "classifier", "num_labels": 2, "labels": ["speech", "tale"], "task": "classification",
        "seq_length": 32, "best_by": "eval_accuracy", "columns": {"text": "text", "label": "kind"},
    }  # fmt: skip
    recipe = json.loads((finetuned / "recipe.json").read_text())
    expected = {**RECIPE, "epochs": None, "seed": 0, "freeze": None, "examples": 38, "replicas": 1}
    assert {name: recipe[name] for name in expected} == expected
    assert recipe["eval_examples"] == {"dev": 38}
    assert recipe["vocabulary"] == hashlib.sha256(tiny_vocabulary.read_bytes()).hexdigest()
    assert set(recipe["versions"]) == {"python", "tensorflow", "tensorflow-text", "tf_keras"}
    assert checkpoint_steps(finetuned) == [3, 6]
    assert checkpoint_parts(finetuned, 6) == {"model", "optimizer", "step", "iterator", "drawn_at"}


def test_metrics_have_their_names(finetuned):
    training = [line for line in metrics(finetuned) if "loss" in line]
    evaluation = [line for line in metrics(finetuned) if "eval_accuracy" in line]
    assert [line["step"] for line in training] == [2, 4, 6]
    assert [line["step"] for line in evaluation] == [3, 6]
    assert set(training[0]) == {
        "step", "loss", "label_loss", "label_accuracy", "learning_rate", "gradient_norm",
        "examples_per_second", "input_wait",
    }  # fmt: skip
    assert all(set(line) == {"step", "eval_loss", "eval_accuracy", "eval_f1"} for line in evaluation)
    # The warm-up begins at 0; behind it is the line from the peak at step 0 to 0 at the last step.
    rates = [line["learning_rate"] for line in training]
    np.testing.assert_allclose(rates, [0.01 / 2, 0.01 * 3 / 6, 0.01 * 1 / 6], rtol=1e-6)


@pytest.fixture
def examples(own_table, piece_tokenizer):
    """The examples, tokenised, with their labels."""
    records = TASK_SPECS["classification"].format.read(own_table, True, COLUMNS)
    task = Classification({"labels": ["speech", "tale"]})
    return task.encode(records, piece_tokenizer, True).rows


@pytest.fixture(scope="module")
def plain(asked):
    """A run without dropout, whose updates can be computed elsewhere."""
    made = asked(recipe=PLAIN, loop={**LOOP, "checkpoint_every": 1, "keep": 6})
    finetune(made)
    return made.output


def test_updates_are_those_of_adamw_on_the_same_batches(plain, examples):
    """The rate of the first one is 0, so that its checkpoint has the first weights."""
    model = albert_tf.load(plain, step=1)
    optimizer = create_optimizer("adamw", init_lr=0.01, num_train_steps=6, num_warmup_steps=2)
    for batch in task_batches(examples, 32, 8, seed=0).take(6):
        inputs = {name: batch[name] for name in ("input_word_ids", "input_mask", "input_type_ids")}
        with tf.GradientTape() as tape:
            logits = model(inputs)["logits"]
            chosen = tf.gather(tf.nn.log_softmax(logits), tf.maximum(batch["labels"], 0), batch_dims=1)
            counted = tf.cast(batch["labels"] >= 0, tf.float32)  # one batch of an epoch is not full
            loss = -tf.reduce_sum(counted * chosen) / tf.reduce_sum(counted)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    expected, before = {x.name: x.numpy() for x in model.variables}, weights(plain, 1)
    for name, value in weights(plain, 6).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-4, err_msg=name)
        # Of keys a bias changes no attention.
        assert np.abs(value - before[name]).max() > 1e-4 or "key/bias" in name, name


def test_bias_correction_is_the_optimizers(asked, begun):
    training, _ = begun(finetune, asked(recipe={**PLAIN, "bias_correction": True}))
    assert training.optimizer.bias_correction


def test_the_figures_are_those_of_the_model(plain, examples):
    """The loss of an evaluation and its accuracy, of each example by itself."""
    model, (batch,) = albert_tf.load(plain, 6), task_batches(examples, 32, 38, shuffle=False, repeat=False)
    logits = model({name: batch[name] for name in ("input_word_ids", "input_mask", "input_type_ids")})
    shares = tf.nn.softmax(logits["logits"]).numpy()
    labels = batch["labels"].numpy()
    line = metrics(plain)[-1]
    assert line["eval_loss"] == pytest.approx(-np.log(shares[range(38), labels]).mean(), rel=1e-5)
    predicted = shares.argmax(axis=1)
    assert line["eval_accuracy"] == pytest.approx((predicted == labels).mean())
    assert line["eval_f1"] == pytest.approx(f1_score(labels, predicted, average="macro"))


@pytest.mark.slow
def test_two_devices_train_as_one_does(plain, asked, two_replicas, monkeypatch):
    # A second strategy of these devices would mix its collective ops up with those of the first.
    monkeypatch.setitem(STRATEGIES, "mirrored", lambda tpu: two_replicas)
    made = asked(recipe=PLAIN, strategy="mirrored", accumulate=2, remat=True)
    finetune(made)
    assert json.loads((made.output / "recipe.json").read_text())["replicas"] == 2
    expected, found = weights(plain, 6), weights(made.output, 6)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)
    alone = [line for line in metrics(plain) if "eval_loss" in line]
    both = [line for line in metrics(made.output) if "eval_loss" in line]
    for one, other in zip(alone, both, strict=True):
        assert other == pytest.approx(one, rel=1e-3)


def test_a_frozen_encoder_stays_bit_for_bit_and_what_is_cut_is_told(plain, asked):
    lines = []
    short = {**RECIPE, "steps": 2, "warmup_steps": 1, "seq_length": 8}
    made = asked(freeze="encoder", recipe=short, accumulate=2)
    finetune(made, lines.append)
    assert any("of 38 examples are longer than seq_length=8" in line for line in lines)
    first, last = weights(plain, 1), weights(made.output)  # the seed is the same
    head = {name for name in first if not np.array_equal(first[name], last[name])}
    assert head == {"classifier/output_weights:0", "classifier/output_bias:0"}


def test_nothing_is_written_where_there_is_nothing_to_learn_from(asked, tmp_path):
    alike, empty, run = tmp_path / "alike.jsonl", tmp_path / "empty.jsonl", tmp_path / "run"
    alike.write_text(20 * (json.dumps({**ROWS[0], "kind": "tale"}) + "\n"))
    empty.write_text("")
    cases = [
        ({"train": empty}, r"empty\.jsonl"),
        ({"eval": empty}, r"empty\.jsonl"),
        ({"train": alike, "eval": None}, "'tale'"),
        ({"columns": Columns("texts", None, "kind")}, "'texts'.*'text', 'kind'"),
        ({"accumulate": 3}, "batch_size=8 .*accumulate=3"),
        ({"tokenizer": {"lowercases": False}}, "lowercases"),
    ]
    for changes, message in cases:
        with pytest.raises(InputError, match=message):
            finetune(asked(run, **changes))
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        finetune(asked(run, train="nowhere.csv"))
    assert not run.exists()


@pytest.mark.parametrize(
    ("recipe", "changes", "is_trained"),
    [
        ({"made_by": "a test"}, {"pooler": "none"}, False),
        ({"sentence_objective": "none"}, {}, False),
        ({"converted_from": "huggingface", "fresh": ["pooler/dense/kernel", "pooler/dense/bias"]}, {}, False),
        ({"sentence_objective": "sop"}, {}, True),
        ({"sentence_objective": "none", "init_from": "albert_base_v2"}, {}, True),  # trained there
        ({"converted_from": "huggingface", "fresh": ["cls/predictions/output_bias"]}, {}, True),
    ],
)
def test_a_pooler_that_was_never_trained_is_not_frozen(
    recipe, changes, is_trained, asked, begun, tiny_vocabulary, tmp_path
):
    task = {"model": "pretrainer", "sentence_objective": recipe.get("sentence_objective", "none")}
    model = build_model(TINY.replace(num_hidden_layers=1, **changes), task)
    albert_tf.save(model, tmp_path / "origin", tiny_vocabulary, recipe=recipe)
    made = asked(init_from=tmp_path / "origin", config=None, vocabulary=None, freeze="encoder")
    if is_trained:
        begun(finetune, made)
        return
    with pytest.raises(InputError, match=r"freeze='encoder'.*pooling='mean'"):
        finetune(made)
