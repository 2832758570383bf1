"""google-research/albert's checkpoints, converted and loaded, against what its own code computed."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints import RunDirectory, task_of
from albert_tf.checkpoints.names import variable_names
from albert_tf.conversion import convert
from albert_tf.conversion.google import _layer_normalization
from tests.albert_tf.conversion import tf1
from tests.tiny import TINY

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
    tf1.write(folder / "model.ckpt-best", change(tf1.read(folder / "model.ckpt-best")))


def without(*patterns):
    return lambda values: {k: v for k, v in values.items() if not any(p in k for p in patterns)}


def renamed(pattern, new):
    return lambda values: {re.sub(pattern, new, name): value for name, value in values.items()}


def check_weights(run, folder, name=lambda google: google):
    """Every weight of a run is bit for bit that of a recorded checkpoint."""
    model, values = albert_tf.load(run), tf1.read(folder / "model.ckpt-best")
    variables = {variable.name.removesuffix(":0"): variable.numpy() for variable in model.variables}
    for names in variable_names(model.config, task_of(model)):
        np.testing.assert_array_equal(variables[names.ours], values[name(names.google)])
    return model


def test_encoder_only_and_no_sentence_head(folder, tmp_path):
    rewrite(folder, without("seq_relationship"))
    convert("google", "run", folder, tmp_path / "run")
    model = albert_tf.load(tmp_path / "run")
    assert isinstance(model, albert_tf.AlbertPretrainer) and model.sentence_objective == "none"
    rewrite(folder, without("cls/"))
    convert("google", "run", folder / "model.ckpt-best", tmp_path / "run2")
    assert isinstance(albert_tf.load(tmp_path / "run2"), albert_tf.AlbertEncoder)


@pytest.mark.parametrize(
    "slots",
    [
        ["adam_m", "adam_v"],
        ["lamb_m", "lamb_v"],
        ["Adam", "Adam_1"],
        ["AdamWeightDecayOptimizer", "AdamWeightDecayOptimizer_1"],
        ["LAMBOptimizer", "Momentum", "ExponentialMovingAverage"],
    ],
)
def test_slots_under_any_name(folder, tmp_path, slots):
    values = tf1.read(folder / "model.ckpt-best")
    weights = [name for name in values if name.startswith(("bert/", "cls/")) and "lamb" not in name]
    added = {f"{name}/{slot}": np.zeros_like(values[name]) for name in weights for slot in slots}
    scalars = {name: np.float32(0.9) for name in ("beta1_power", "beta2_power", "loss_scale")}
    rewrite(folder, lambda values: values | added | scalars)
    done = convert("google", "run", folder, tmp_path / "run")
    assert {*added, *scalars, "global_step"} <= set(done.unread) and done.fresh == []
    check_weights(tmp_path / "run", folder)


@pytest.mark.parametrize("prefix", ["module/", "tower_0/module/"])
def test_saved_under_a_prefix(folder, tmp_path, golden, prefix):
    rewrite(folder, renamed("^(bert|cls)/", rf"{prefix}\1/"))
    convert("google", "run", folder, tmp_path / "run")
    check_weights(tmp_path / "run", golden / "tf1" / "shared")


def test_layer_norms_that_keras_named(folder, tmp_path, golden):
    """Numbered over the whole network, as layers of Keras are."""

    def keras_names(values):
        for pattern, number in (
            ("embeddings/LayerNorm/", ""),
            ("_0/LayerNorm/", "_1"),
            ("LayerNorm_1/", "_2"),
        ):
            values = renamed(pattern, pattern.partition("LayerNorm")[0] + f"layer_normalization{number}/")(
                values
            )
        return renamed("transform/LayerNorm/", "transform/layer_normalization_25/")(values)

    rewrite(folder, keras_names)
    assert sum("layer_normalization" in name for name in tf1.read(folder / "model.ckpt-best")) == 8
    convert("google", "run", folder, tmp_path / "run")
    check_weights(tmp_path / "run", golden / "tf1" / "shared")


def test_layer_norms_that_keras_named_are_in_the_order_of_their_numbers():
    names = [f"group_0/layer_normalization_{number}/gamma" for number in (10, 9)]
    expected = {"group_0/LayerNorm_1/gamma": names[0], "group_0/LayerNorm/gamma": names[1]}
    assert _layer_normalization(names) == expected


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_other_floats(folder, tmp_path, golden, dtype):
    kind = dtype.as_numpy_dtype
    rewrite(
        folder, lambda values: {k: v.astype(kind) if v.dtype.kind == "f" else v for k, v in values.items()}
    )
    convert("google", "run", folder, tmp_path / "run")
    exact = tf1.read(golden / "tf1" / "shared" / "model.ckpt-best")["bert/pooler/dense/kernel"]
    kernel = albert_tf.load(tmp_path / "run").encoder.pooler.kernel.numpy()
    np.testing.assert_array_equal(kernel, exact.astype(kind).astype(np.float32))


@pytest.mark.parametrize("prefix", ["", "module/"])
@pytest.mark.parametrize(
    ("head", "units", "model"),
    [
        ("output", 3, albert_tf.AlbertClassifier),
        ("output", 1, albert_tf.AlbertClassifier),
        ("cls/squad/output", 2, albert_tf.AlbertSpanLabeler),
    ],
)
def test_fine_tuned_heads(folder, tmp_path, golden, prefix, head, units, model):
    """Those of run_classifier and run_squad_v1; fine-tuned from a module, pre-training's are still there."""
    weights = np.arange(units * 32, dtype=np.float32).reshape(units, 32)
    added = {f"{head}_weights": weights, f"{head}_bias": np.ones([units], np.float32)}
    change = renamed("^(bert|cls)/", rf"{prefix}\1/") if prefix else without("cls/")
    rewrite(folder, lambda values: {**change(values), **added})
    done = convert("google", "run", folder, tmp_path / "run")
    loaded = albert_tf.load(tmp_path / "run")
    assert type(loaded) is model and done.fresh == []
    np.testing.assert_array_equal(loaded.variables[-2].numpy(), weights)
    assert getattr(loaded, "num_labels", units) == units
    unread = [name for name in done.unread if "/cls/" in name]
    assert len(unread) == (7 if prefix else 0)


@pytest.mark.parametrize("projects", [True, False])
def test_embedding_size_of_the_hidden_size(golden, tmp_path, projects):
    """google-research/albert projects only where they differ; a checkpoint that has a projection keeps it."""
    folder = shutil.copytree(golden / "tf1" / "unshared", tmp_path / "google")
    rng = np.random.default_rng(0)
    scope = "bert/encoder/embedding_hidden_mapping_in"
    added = {f"{scope}/kernel": rng.normal(size=[32, 32]), f"{scope}/bias": rng.normal(size=[32])}
    rewrite(folder, lambda values: {**values, **(added if projects else {})})
    convert("google", "run", folder, tmp_path / "run")
    model = albert_tf.load(tmp_path / "run")
    assert model.config.has_projection is projects
    if projects:
        np.testing.assert_array_equal(model.encoder.projection.kernel, added[f"{scope}/kernel"].astype("f4"))
        with pytest.raises(ValueError, match="project_embeddings=True: it projects only where"):
            convert("run", "google", tmp_path / "run", tmp_path / "back")


BAD = {
    "missing": (
        without("pooler/dense/bias", "key/kernel"),
        "self/key/kernel is missing; bert/pooler/dense/bias is missing",
    ),
    "unknown": (lambda v: {**v, "bert/extra": np.zeros(3)}, "bert/extra is unknown"),
    "shape": (
        lambda v: {**v, "bert/pooler/dense/bias": np.zeros([7], np.float32)},
        r"bert/pooler/dense/bias is \[7\], the config says \[32\]",
    ),
    "type": (
        lambda v: {**v, "bert/pooler/dense/bias": np.zeros([32], np.int32)},
        "bert/pooler/dense/bias is of type int32, none of float16",
    ),
    "no number": (
        lambda v: {**v, "bert/pooler/dense/bias": np.full([32], np.nan, np.float32)},
        "bert/pooler/dense/bias holds NaN or infinity",
    ),
    "two models": (
        lambda v: {**v, "ema/bert/embeddings/word_embeddings": np.zeros([120, 16], np.float32)},
        "holds several models: bert/embeddings/word_embeddings, ema/bert/",
    ),
    "unshared LayerNorm": (
        lambda v: {**v, "bert/encoder/layer_1/layer_normalization_5/beta": np.zeros([32], np.float32)},
        "layer_1/layer_normalization_5/beta is unknown",
    ),
    "output layer of another width": (
        lambda v: {**v, "output_weights": np.zeros([3, 16]), "output_bias": np.zeros([2])},
        r"output_weights is \[3, 16\], the config says \[3, 32\]; output_bias is \[2\], .* \[3\]",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_named_and_nothing_written(folder, tmp_path, change, message):
    rewrite(folder, change)
    with pytest.raises(ValueError, match=message):
        convert("google", "run", folder, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["google"]


def test_layout_of_another_project(shared, tmp_path):
    folder = shared / "golden" / "tf1_index" / "zh_albert_tiny_brightmart"
    for partial in (False, True):
        with pytest.raises(ValueError, match="the layout is that of brightmart/albert_zh") as caught:
            convert("google", "run", folder, tmp_path / "run", partial=partial)
    with pytest.raises(ValueError) as caught:
        convert("google", "run", folder, tmp_path / "run")
    for name in ("bert/embeddings/word_embeddings_2", "bert/encoder/layer_shared/output/dense/bias"):
        assert f"{name} is unknown" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_partial_takes_the_encoder_and_names_the_rest(folder, tmp_path):
    rewrite(folder, without("pooler/"))
    conversion = convert("google", "run", folder, tmp_path / "run", partial=True)
    assert conversion.fresh == ["pooler/dense/kernel", "pooler/dense/bias"]
    assert "cls/predictions/output_bias" in conversion.unread
    assert isinstance(albert_tf.load(tmp_path / "run"), albert_tf.AlbertEncoder)
    rewrite(folder, without("bert/"))
    with pytest.raises(ValueError, match="none of the encoder's variables is there"):
        convert("google", "run", folder, tmp_path / "run2", partial=True)


MODELS = {
    "sop": lambda config: albert_tf.AlbertPretrainer(config),
    "classifier": lambda config: albert_tf.AlbertClassifier(config, num_labels=3),
    "span_labeler": albert_tf.AlbertSpanLabeler,
    "answerability": lambda config: albert_tf.AlbertSpanLabeler(config, answerability=True),
    "token_classifier": lambda config: albert_tf.AlbertTokenClassifier(config, num_labels=3),
    "multiple_choice": lambda config: albert_tf.AlbertMultipleChoice(config, num_choices=4),
}
SMALL = TINY.replace(num_hidden_layers=2)


@pytest.mark.parametrize("kind", MODELS)
def test_a_saver_of_tf1_restores_what_is_written(tmp_path, kind):
    """Into a graph with google-research/albert's variables."""
    model = MODELS[kind](SMALL.replace(sharing="none"))
    albert_tf.save(model, tmp_path / "run", step=7)
    convert("run", "google", tmp_path / "run", tmp_path / "google")
    google = {names.ours: names.google for names in variable_names(model.config, task_of(model))}
    values = {google[v.name.removesuffix(":0")]: v.numpy() for v in model.variables}
    with tf.Graph().as_default():
        variables = {
            name: tf.compat.v1.get_variable(name, shape=value.shape) for name, value in values.items()
        }
        step = tf.compat.v1.train.create_global_step()
        with tf.compat.v1.Session() as session:
            saver = tf.compat.v1.train.Saver()
            saver.restore(session, str(tmp_path / "google" / "model.ckpt-best"))
            for name, variable in variables.items():
                np.testing.assert_array_equal(session.run(variable), values[name])
            assert session.run(step) == 7
    config = json.loads((tmp_path / "google" / "albert_config.json").read_text())
    assert config["num_hidden_groups"] == 2 and not {"sharing", "layer_norm_eps"} & config.keys()
    if kind == "multiple_choice":
        assert values["output_weights"].shape == (1, 32)
    else:  # there a checkpoint does not say how many choices, and is of a regression
        convert("google", "run", tmp_path / "google", tmp_path / "back")
        assert RunDirectory(tmp_path / "back").task == task_of(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sharing": "attention"}, 'sharing="attention": there layers share both blocks or none'),
        ({"sharing": "ffn", "hidden_act": "gelu_erf"}, 'sharing="ffn".*; hidden_act="gelu_erf"'),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps=1e-05: there it is 1e-12"),
    ],
)
def test_networks_that_google_does_not_have(tmp_path, change, message):
    albert_tf.save(albert_tf.AlbertEncoder(SMALL.replace(**change)), tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        convert("run", "google", tmp_path / "run", tmp_path / "google")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
