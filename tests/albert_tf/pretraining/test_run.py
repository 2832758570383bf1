"""Pre-training from text to a run directory; resuming; refusing what would spoil a run."""

import json
import re

import numpy as np
import pytest
import tf_keras as keras

import albert_tf
from albert_tf.data.prepare import prepare
from albert_tf.errors import InputError
from albert_tf.optimization import AdamW
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import trained_positions
from albert_tf.runs.checkpoints import checkpoint_parts, checkpoint_steps
from albert_tf.runs.run_directory import RunDirectory
from tests.albert_tf.pretraining.runs import CONFIG, EMPTY_FIELD, RECIPE, metrics, weights, weights_of
from tests.tiny import CORPUS, TINY

POSITIONS = "embeddings/position_embeddings:0"


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
        "gradient_norm", "examples_per_second", "tokens_per_second", "input_wait", "mlm_perplexity",
    }  # fmt: skip
    assert set(evaluation[0]) == {
        "step", "eval_loss", "eval_mlm_loss", "eval_mlm_accuracy", "eval_mlm_perplexity", "eval_sop_loss",
        "eval_sop_accuracy",
    }  # fmt: skip
    np.testing.assert_allclose(
        [line["learning_rate"] for line in training], [0.005, 0.01 * 3 / 6, 0.01 * 1 / 6], rtol=1e-6
    )
    for line in training:
        np.testing.assert_allclose(line["loss"], line["mlm_loss"] + line["sop_loss"], rtol=1e-6)


def test_nothing_is_written_where_there_is_nothing_to_learn_from(settings, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    for changes in ({"train": [str(empty)]}, {"eval": [str(empty)]}):
        with pytest.raises(ValueError, match="no text"):
            pretrain(settings(tmp_path / "run", **changes))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        pretrain(settings(tmp_path / "run", train=["nowhere.txt"]))
    with pytest.raises(InputError, match="seq_length=128"):
        pretrain(settings(tmp_path / "run", recipe=RECIPE.replace(seq_length=128)))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "held_out"),
    [
        (CORPUS, r"1 of 8 documents, 1[0-9]\.\d% of the text"),
        ("Two sentences are all there is.\nThe second one is held out.\n", "the last 1% of each document"),
    ],
)
def test_a_small_corpus_is_evaluated_on_a_part_of_it(settings, tmp_path, text, held_out):
    """Which the run says, and keeps out of its training when it is resumed."""
    (tmp_path / "text.txt").write_text(text)
    recipe, lines = RECIPE.replace(steps=2, warmup_steps=0), []
    made = settings(train=[str(tmp_path / "text.txt")], eval=None, recipe=recipe)
    pretrain(made, lines.append)
    assert re.search(rf"from step 0, to 2; held out: {held_out}$", lines[-1])
    pretrain(settings(made.output, train=made.train, eval=None, recipe=recipe.replace(steps=3)), lines.append)
    assert re.search(rf"from step 2, to 3; held out: {held_out}$", lines[-1])
    assert [line["step"] for line in metrics(made.output) if "eval_loss" in line] == [2, 3]


@pytest.mark.slow
def test_a_damaged_shard_is_named(run, settings, tiny_corpus, tiny_vocabulary, tmp_path):
    prepare(tiny_corpus, tmp_path / "corpus", tiny_vocabulary, shards=1, report=lambda line: None)
    shard = tmp_path / "corpus/train-00000-of-00001.tfrecord"
    content = bytearray(shard.read_bytes())
    content[-20] ^= 1  # behind what is looked at before training begins
    shard.write_bytes(content)
    with pytest.raises(InputError, match=f"^{shard} is damaged"):
        pretrain(settings(tmp_path / "run", train=[str(shard)]))
    with pytest.raises(InputError, match=f"^{shard} is damaged"):
        evaluate_run(run, [str(shard)])


def test_a_deeper_network_starts_from_a_run(run, settings, begun):
    lines = []
    deeper = CONFIG.replace(num_hidden_layers=5, num_hidden_groups=2, max_position_embeddings=40)
    training, _ = begun(pretrain, settings(init_from=run, config=deeper), lines.append)
    assert lines[1:] == ["copied: group_0 to group_0, group_1", "positions: 32 in the run, 40 here"]
    before, after = weights(run), weights_of(training.model)
    before[POSITIONS] = np.resize(before[POSITIONS][:32], [40, CONFIG.embedding_size])  # 32 are trained
    for name, value in after.items():
        origin = before[name.replace("/group_1/", "/group_0/")]
        np.testing.assert_array_equal(value, origin[: len(value)], err_msg=name)
    with pytest.raises(InputError, match="extend_positions"):
        settings(extend_positions=True)


def test_positions_that_the_origin_has_not_trained_are_copies_of_the_others(
    run, settings, begun, tiny_vocabulary, tmp_path
):
    """The run has sequences of 32 tokens; another of 16 that starts from it has trained no fewer."""
    assert json.loads((run / "recipe.json").read_text())["trained_positions"] == 0
    training, contents = begun(pretrain, settings(init_from=run))
    trained = weights(run)[POSITIONS][:32]
    np.testing.assert_array_equal(weights_of(training.model)[POSITIONS], np.tile(trained, [2, 1]))
    assert contents.recipe["trained_positions"] == 32
    assert trained_positions(RunDirectory(run)) == 32
    for length, expected in ((64, 64), (16, 32)):
        path, recipe = tmp_path / f"{length}", {**contents.recipe, "seq_length": length}
        albert_tf.save(training.model, path, tiny_vocabulary, step=6, recipe=recipe)
        assert trained_positions(RunDirectory(path)) == expected


def test_text_that_is_trained_and_evaluated_on_is_said(settings, begun, caplog):
    begun(pretrain, settings())
    (line,) = [line for line in caplog.messages if "`train`" in line]
    assert "corpus.txt" in line


@pytest.mark.slow
def test_batches_of_a_data_service(settings, data_service):
    """Its iterator cannot be saved: a resumed run draws other batches, and says no different."""
    made = settings(recipe=RECIPE.replace(steps=3), data_service=data_service, eval_every=0)
    pretrain(made)
    assert checkpoint_parts(made.output, 3) == {"model", "optimizer", "step"}
    pretrain(settings(made.output, data_service=data_service, eval_every=0))
    assert checkpoint_steps(made.output) == [3, 6]
    pretrain(settings(made.output, recipe=RECIPE.replace(steps=8), eval_every=0))  # and without it
    assert "iterator" in checkpoint_parts(made.output, 8)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"precision": "bfloat16", "remat": True, "xla": False}, ("mixed_bfloat16", True, True, 1, False, 5)),
        ({"precision": "float16", "accumulate": 2, "xla": True}, ("mixed_float16", False, False, 2, True, 5)),
    ],
)
def test_how_an_update_runs_is_as_asked(settings, monkeypatch, changes, expected):
    """They change no figure of a run to speak of: one that went unheeded would not show."""

    class Seen(Exception):
        pass

    def train_step(model, optimizer, *_, accumulate, xla, seed, **others):
        scaled = isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)
        assert scaled == (changes.get("precision") == "float16")
        raise Seen(model.dtype_policy.name, model.encoder.remat, model.encoder.fused, accumulate, xla, seed)

    monkeypatch.setattr("albert_tf.training.stages.TrainStep", train_step)
    with pytest.raises(Seen) as seen:
        pretrain(settings(seed=5, **changes))
    assert seen.value.args == expected


def test_weights_of_another_text_are_refused(run, settings, tiny_vocabulary, tmp_path):
    with pytest.raises(InputError, match="lowercase"):
        pretrain(settings(tmp_path / "run", init_from=run, lowercase=False))
    other = tmp_path / "other.model"
    other.write_bytes(tiny_vocabulary.read_bytes() + EMPTY_FIELD)  # as many pieces
    (tmp_path / "other.tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"other\.model is not the vocabulary of"):
        pretrain(settings(tmp_path / "run", init_from=run, vocabulary=other))
    assert not (tmp_path / "run").exists()


def test_the_seed_and_the_optimizer_are_the_runs(settings, begun):
    numbers = {"weight_decay": 0.3, "beta_1": 0.7, "beta_2": 0.8, "epsilon": 1e-3}
    recipe = RECIPE.replace(optimizer="adamw", learning_rate=0.5, clip_norm=2.0, warmup_steps=3, **numbers)
    kernels = []
    for seed in (0, 5):
        training, _ = begun(pretrain, settings(seed=seed, recipe=recipe))
        kernels.append(training.model.encoder.pooler.kernel.numpy())
    optimizer = training.optimizer
    assert np.abs(kernels[0] - kernels[1]).max() > 0.01
    config = optimizer.get_config()
    assert type(optimizer) is AdamW
    assert {name: config[name] for name in numbers} == numbers
    assert config["global_clipnorm"] == 2.0
    rates = [float(optimizer._learning_rate(step)) for step in range(7)]
    np.testing.assert_allclose(rates, [0, 1 / 6, 1 / 3, 1 / 4, 1 / 6, 1 / 12, 0], rtol=1e-6, atol=0)


def test_text_to_evaluate_on_needs_a_masked_token(settings, tmp_path):
    """A word of more pieces than may be masked never is: the loss of such a text would be no number."""
    (tmp_path / "eval.txt").write_text("lhtheofwaskdinrs\noflhthewaskdinrs\n")
    with pytest.raises(InputError, match=r"eval\.txt.*no token .* is masked.*`eval`"):
        pretrain(settings(tmp_path / "run", eval=[str(tmp_path / "eval.txt")]))
    assert not (tmp_path / "run").exists()


def test_text_without_masks_is_not_evaluated_on(run, tmp_path):
    (tmp_path / "eval.txt").write_text("lhtheofwaskdinrs\noflhthewaskdinrs\n")
    with pytest.raises(InputError, match=r"no token of the text's examples is masked"):
        evaluate_run(run, tmp_path / "eval.txt")
