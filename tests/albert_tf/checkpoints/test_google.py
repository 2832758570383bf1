"""google-research/albert's checkpoints, converted and loaded, against what its own code computed."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints import convert, task_of
from albert_tf.checkpoints.names import variable_names

CASES = ["shared", "groups", "inner", "unshared"]


@pytest.fixture(scope="module", params=CASES)
def case(request, golden, tmp_path_factory):
    """A converted and loaded model, the recorded arrays, and what the conversion said and read."""
    folder = golden / "tf1" / request.param
    run = tmp_path_factory.mktemp("google") / "run"
    conversion = convert("google", "run", folder, run)
    return albert_tf.load(run), dict(np.load(folder / "expected.npz")), conversion, folder


def cross_entropy(labels, logits):
    return -tf.gather(tf.nn.log_softmax(logits), labels, batch_dims=labels.shape.rank)


def test_outputs(case):
    model, expected, *_ = case
    outputs = model({name: expected[name] for name in expected if name.startswith(("input_", "masked_lm_"))})
    assert len(outputs["encoder_outputs"]) == len(expected["encoder_outputs"])
    outputs["encoder_outputs"] = tf.stack(outputs["encoder_outputs"])
    for name in [
        "embedding_output",
        "encoder_outputs",
        "sequence_output",
        "pooled_output",
        "mlm_logits",
        "sop_logits",
    ]:
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


def test_losses_and_gradients(case):
    model, expected, *_ = case
    inputs = {name: expected[name] for name in expected if name.startswith(("input_", "masked_lm_"))}
    with tf.GradientTape() as tape:
        outputs = model(inputs)
        weights = expected["masked_lm_weights"]
        token_losses = cross_entropy(tf.constant(expected["masked_lm_ids"]), outputs["mlm_logits"])
        # google-research/albert's guard against a batch without masks.
        mlm_loss = tf.reduce_sum(token_losses * weights) / (weights.sum() + 1e-5)
        sop_loss = tf.reduce_mean(cross_entropy(tf.constant(expected["sop_labels"]), outputs["sop_logits"]))
        loss = mlm_loss + sop_loss
    np.testing.assert_allclose([mlm_loss, sop_loss], [expected["mlm_loss"], expected["sop_loss"]], atol=1e-5)
    google = {name.ours: name.google for name in variable_names(model.config, task_of(model))}
    gradients = {
        google[variable.name.removesuffix(":0")]: tf.convert_to_tensor(gradient)
        for variable, gradient in zip(model.variables, tape.gradient(loss, model.variables), strict=True)
    }
    recorded = {
        key.removeprefix("grad:"): value for key, value in expected.items() if key.startswith("grad:")
    }
    assert gradients.keys() == recorded.keys()
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, recorded[name], rtol=0, atol=1e-4, err_msg=name)


def test_weights_are_bit_for_bit_and_nothing_but_the_optimizer_is_left_out(case):
    model, _, conversion, folder = case
    assert conversion.unread == [
        "bert/embeddings/token_type_embeddings/lamb_m",
        "bert/embeddings/word_embeddings/lamb_m",
        "global_step",
    ]
    assert conversion.fresh == []
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt-best"))
    values = {variable.name: variable.numpy() for variable in model.variables}
    for name in variable_names(model.config, task_of(model)):
        np.testing.assert_array_equal(values[f"{name.ours}:0"], reader.get_tensor(name.google))


@pytest.fixture
def folder(golden, tmp_path):
    """A copy of a recorded checkpoint, to be changed."""
    return shutil.copytree(golden / "tf1" / "shared", tmp_path / "google")


def rewrite(folder, change):
    """Writes the checkpoint of a folder anew, with its variables changed by a function."""
    prefix = str(folder / "model.ckpt-best")
    reader = tf.train.load_checkpoint(prefix)
    values = change({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()})
    for file in folder.glob("model.ckpt-best.*"):
        file.unlink()
    names = list(values)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(values[name]) for name in names],
    )


def without(*patterns):
    return lambda values: {k: v for k, v in values.items() if not any(p in k for p in patterns)}


def test_run_directory(folder, tmp_path):
    (folder / "30k-clean.model").write_bytes(b"a vocabulary")
    convert("google", "run", folder, tmp_path / "run")
    assert (tmp_path / "run" / "spiece.model").read_bytes() == b"a vocabulary"
    assert albert_tf.AlbertConfig.from_json_file(
        tmp_path / "run" / "config.json"
    ) == albert_tf.AlbertConfig.from_json_file(folder / "albert_config.json")
    other = tmp_path / "other.model"
    other.write_bytes(b"another")
    convert("google", "run", folder, tmp_path / "run2", vocabulary=other)
    assert (tmp_path / "run2" / "spiece.model").read_bytes() == b"another"


def test_encoder_only_and_no_sentence_head(folder, tmp_path):
    rewrite(folder, without("seq_relationship"))
    convert("google", "run", folder, tmp_path / "run")
    model = albert_tf.load(tmp_path / "run")
    assert isinstance(model, albert_tf.AlbertPretrainer) and model.sentence_objective == "none"
    rewrite(folder, without("cls/"))
    convert("google", "run", folder / "model.ckpt-best", tmp_path / "run2")
    assert isinstance(albert_tf.load(tmp_path / "run2"), albert_tf.AlbertEncoder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            without("pooler/dense/bias", "key/kernel"),
            "self/key/kernel is missing; bert/pooler/dense/bias is missing",
        ),
        (lambda v: {**v, "bert/extra": np.zeros(3)}, "bert/extra is unknown"),
        (
            lambda v: {**v, "bert/pooler/dense/bias": np.zeros([7], np.float32)},
            r"bert/pooler/dense/bias is \[7\], the config says \[32\]",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_written(folder, tmp_path, change, message):
    rewrite(folder, change)
    with pytest.raises(ValueError, match=message):
        convert("google", "run", folder, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["google"]


def test_partial_takes_the_encoder_and_names_the_rest(folder, tmp_path):
    rewrite(folder, without("pooler/"))
    conversion = convert("google", "run", folder, tmp_path / "run", partial=True)
    assert conversion.fresh == ["pooler/dense/kernel", "pooler/dense/bias"]
    assert "cls/predictions/output_bias" in conversion.unread
    assert isinstance(albert_tf.load(tmp_path / "run"), albert_tf.AlbertEncoder)


def test_files_that_are_missing_or_in_the_way(folder, tmp_path):
    with pytest.raises(FileExistsError, match="google exists already"):
        convert("google", "run", folder, folder)
    with pytest.raises(ValueError, match="no conversion from google to word2vec"):
        convert("google", "word2vec", folder, tmp_path / "run")
    with pytest.raises(FileNotFoundError, match=r"no\.model is no file"):
        convert("google", "run", folder, tmp_path / "run", vocabulary=tmp_path / "no.model")
    with pytest.raises(FileNotFoundError, match=r"holds no albert_config\*\.json"):
        convert("google", "run", tmp_path / "nowhere", tmp_path / "run")
    with pytest.raises(FileNotFoundError, match=r"model\.ckpt-1\.index is missing"):
        convert("google", "run", folder / "model.ckpt-1", tmp_path / "run")
    (folder / "albert_config.json").rename(tmp_path / "albert_config.json")
    with pytest.raises(FileNotFoundError, match=r"holds no albert_config\*\.json"):
        convert("google", "run", folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_damaged_data(folder, tmp_path):
    data = folder / "model.ckpt-best.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"model\.ckpt-best\.index or its \.data file is damaged"):
        convert("google", "run", folder, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["google"]
