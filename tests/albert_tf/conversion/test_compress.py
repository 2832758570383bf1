"""An ALBERT from a BERT: the factors, the blocks of a group, and what is taken over."""

import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.conversion.compress import compress, factorise_embeddings, zero_mean_basis
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import open_run
from tests.albert_tf.commands import mistake
from tests.albert_tf.models.oracles import numpy_layer_norm
from tests.tiny import TINY

BERT = TINY.replace(embedding_size=32, num_hidden_layers=4, sharing="none", initializer_range=0.5)
RNG = np.random.default_rng(0)


def low_rank(rows, rank, width, basis):
    """Rows whose centred part has so low a rank, and which have different means."""
    return RNG.normal(size=[rows, rank]) @ basis[:rank, :width] + RNG.normal(size=[rows, 1])


def test_where_the_rank_suffices_the_factors_are_exact():
    basis, gamma, beta = RNG.normal(size=[7, 32]), RNG.normal(size=32), RNG.normal(size=32)
    tables = {name: low_rank(rows, 7, 32, basis) for name, rows in (("words", 90), ("positions", 12))}
    found = factorise_embeddings(tables, gamma, 8)
    assert found.tables["words"].shape == (90, 8)
    expected = numpy_layer_norm(tables["words"][:12] + tables["positions"], gamma, beta, 0)
    normalised = numpy_layer_norm(found.tables["words"][:12] + found.tables["positions"], 1, 0, 0)
    computed = normalised @ found.kernel + beta
    np.testing.assert_allclose(computed, expected, atol=1e-4)
    np.testing.assert_allclose(list(found.errors.values()), 0, atol=1e-6)


def test_of_one_table_the_error_is_that_of_the_truncated_svd():
    table = RNG.normal(size=[200, 32])
    singular = np.linalg.svd(table - table.mean(axis=1, keepdims=True), compute_uv=False)
    for size in (2, 9, 31):
        tail, whole = singular[size - 1 :], singular
        found = factorise_embeddings({"words": table}, np.ones(32), size).errors["words"]
        assert found == pytest.approx(np.linalg.norm(tail) / np.linalg.norm(whole), rel=1e-6)


def test_each_table_counts_alike_however_many_rows_it_has():
    words, positions = RNG.normal(size=[40, 32]), RNG.normal(size=[10, 32])
    one = factorise_embeddings({"words": words, "positions": positions}, np.ones(32), 8)
    other = factorise_embeddings({"words": np.tile(words, [9, 1]), "positions": positions}, np.ones(32), 8)
    assert one.errors == pytest.approx(other.errors, rel=1e-6)
    np.testing.assert_allclose(
        one.tables["positions"] @ one.kernel, other.tables["positions"] @ other.kernel, atol=1e-5
    )


def test_the_directions_that_are_kept_leave_out_the_mean():
    basis = zero_mean_basis(6)
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)


@pytest.fixture(scope="module")
def bert(tmp_path_factory, tiny_vocabulary):
    """The run of a BERT whose embeddings have rank 8, and which learned two labels."""
    model = albert_tf.AlbertClassifier(BERT, num_labels=2)
    basis = RNG.normal(size=[8, 32])
    for variable in model.encoder.embeddings.trainable_variables:
        if "LayerNorm" in variable.name:
            variable.assign(RNG.normal(size=variable.shape))
        else:
            variable.assign(low_rank(variable.shape[0], 8, 32, basis))
    folder = tmp_path_factory.mktemp("bert") / "run"
    albert_tf.save(model, folder, tiny_vocabulary, task={"labels": ["no", "yes"]})
    return folder


def test_with_a_group_a_layer_and_enough_rank_nothing_changes(bert, tmp_path):
    done = compress(bert, tmp_path / "run", embedding_size=16, num_hidden_groups=4)
    inputs = {"input_word_ids": tf.constant([[2, 7, 9, 11, 3], [2, 8, 3, 0, 0]])}
    inputs["input_mask"] = tf.sign(inputs["input_word_ids"])
    before, after = (albert_tf.load(run) for run in (bert, tmp_path / "run"))
    assert (after.config.embedding_size, after.config.sharing) == (16, "all")
    np.testing.assert_allclose(after(inputs)["logits"], before(inputs)["logits"], atol=2e-4)
    states, expected = (model.encoder(inputs)["sequence_output"] for model in (after, before))
    np.testing.assert_allclose(states, expected, atol=2e-4)
    assert done.parameters == tuple(
        sum(int(np.prod(variable.shape)) for variable in model.variables) for model in (before, after)
    )
    assert done.newly_initialized == ()
    run = open_run(tmp_path / "run")
    assert run.task["labels"] == ["no", "yes"]
    assert (tmp_path / "run" / "spiece.model").read_bytes() == (bert / "spiece.model").read_bytes()
    assert run.recipe["relative_errors"] == done.errors


@pytest.mark.parametrize(
    ("blocks", "of_group"),
    [
        ("mean", lambda x: sum(x) / 2),
        ("first", lambda x: x[0]),
        ("middle", lambda x: x[0]),
        ("last", lambda x: x[1]),
    ],
)
def test_a_group_begins_as_its_layers_say(bert, tmp_path, blocks, of_group):
    compress(bert, tmp_path / "run", embedding_size=16, num_hidden_groups=2, blocks=blocks)
    before, after = (open_run(run).variables() for run in (bert, tmp_path / "run"))
    for part in ("attention_1/self/query/kernel", "LayerNorm/gamma", "ffn_1/intermediate/output/dense/bias"):
        for group, layers in ((0, (0, 1)), (1, (2, 3))):
            name = "encoder/transformer/group_{}/inner_group_0/" + part
            expected = of_group([before(name.format(layer)) for layer in layers])
            np.testing.assert_allclose(after(name.format(group)), expected, rtol=1e-6)


def test_the_head_for_masked_tokens_begins_anew(tmp_path):
    albert_tf.save(albert_tf.AlbertPretrainer(BERT), tmp_path / "bert")
    done = compress(tmp_path / "bert", tmp_path / "run", embedding_size=16)
    assert {name.rpartition("/")[0] for name in done.newly_initialized} == {
        "cls/predictions/transform/dense",
        "cls/predictions/transform/LayerNorm",
    }
    before, after = (open_run(tmp_path / name).variables() for name in ("bert", "run"))
    for name in ("pooler/dense/kernel", "cls/seq_relationship/output_weights", "cls/predictions/output_bias"):
        np.testing.assert_array_equal(before(name), after(name))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding_size": 32}, "embedding_size=32 must be at least 2 and below 32"),
        ({"embedding_size": 1}, "embedding_size=1"),
        ({"num_hidden_groups": 5}, "num_hidden_groups=5 must be at least 1 and at most 4"),
        ({"blocks": "median"}, "blocks='median' is none of mean, first, middle, last"),
        ({"step": 7}, "ckpt-7|step 7|step=7"),
    ],
)
def test_what_cannot_be_is_refused(bert, tmp_path, changes, message):
    with pytest.raises((InputError, FileNotFoundError), match=message):
        compress(bert, tmp_path / "run", **{"embedding_size": 16, **changes})
    assert not (tmp_path / "run").exists()


def test_an_albert_is_refused(tmp_path):
    for name, config in (("factorised", TINY), ("shared", BERT.replace(sharing="all"))):
        albert_tf.save(albert_tf.AlbertEncoder(config), tmp_path / name)
        with pytest.raises(InputError, match=f"{name} has .* name a BERT or RoBERTa"):
            compress(tmp_path / name, tmp_path / "run", embedding_size=8)


def test_the_command_tells_what_it_cost(bert, tmp_path, capsys):
    words = ["compress", "--run", str(bert), "--output", str(tmp_path / "run"), "--embedding_size", "16"]
    assert cli.run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("parameters: ")
    assert lines[1] == "word_embeddings: relative error 0.0000"
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert recipe["command"].startswith("albert-tf compress --run")
    assert "exists already" in mistake(capsys, *words)


def test_a_run_on_another_filesystem(bert, tmp_path):
    for place in (tmp_path / "run", "ram://compressed/run"):
        compress(bert, place, embedding_size=16)
    local, other = (open_run(run).variables() for run in (tmp_path / "run", "ram://compressed/run"))
    name = "embeddings/word_embeddings"
    np.testing.assert_array_equal(other(name), local(name))
    with pytest.raises(FileExistsError, match="ram://compressed/run"):
        compress(bert, "ram://compressed/run", embedding_size=16)
