"""google-research/albert's checkpoints, in whatever form they come, and what its code opens."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.conversion.name_mapping import variable_map
from albert_tf.errors import InputError
from albert_tf.runs.build_model import task_of
from albert_tf.runs.run_directory import RunDirectory
from tests.albert_tf.conversion import tf1
from tests.tiny import TINY


def rewrite(folder, change):
    """Writes the checkpoint of a folder anew, with its variables changed by a function."""
    tf1.write(folder / "model.ckpt-best", change(tf1.read(folder / "model.ckpt-best")))


def without(*patterns):
    return lambda values: {k: v for k, v in values.items() if not any(p in k for p in patterns)}


def renamed(pattern, new):
    return lambda values: {re.sub(pattern, new, name): value for name, value in values.items()}


def check_weights(run, folder):
    """Every weight of a run is bit for bit that of a recorded checkpoint."""
    model, values = albert_tf.load(run), tf1.read(folder / "model.ckpt-best")
    variables = {variable.name.removesuffix(":0"): variable.numpy() for variable in model.variables}
    for name, google in variable_map("google", model.config, task_of(model)).items():
        np.testing.assert_array_equal(variables[name], values[google.name])


@pytest.mark.parametrize("case", ["shared", "groups", "inner", "unshared"])
def test_weights_are_bit_for_bit_and_nothing_but_the_optimizer_is_left_out(golden, tmp_path, case):
    done = convert("google", "run", golden / "tf1" / case, tmp_path / "run")
    assert done.unused == [
        "bert/embeddings/token_type_embeddings/lamb_m",
        "bert/embeddings/word_embeddings/lamb_m",
        "global_step",
    ]
    assert done.newly_initialized == []
    check_weights(tmp_path / "run", golden / "tf1" / case)


def test_encoder_only_and_no_sentence_head(google_folder, tmp_path):
    rewrite(google_folder, without("seq_relationship"))
    convert("google", "run", google_folder, tmp_path / "run")
    assert RunDirectory(tmp_path / "run").task == {"model": "pretrainer", "sentence_objective": "none"}
    rewrite(google_folder, without("cls/"))
    convert("google", "run", google_folder / "model.ckpt-best", tmp_path / "run2")
    assert isinstance(albert_tf.load(tmp_path / "run2"), albert_tf.AlbertEncoder)


def keras_names(values):
    """LayerNorms numbered over the whole network, as layers of Keras are."""
    for pattern, number in (("embeddings/", ""), ("_0/", "_10"), ("_0/", "_9"), ("transform/", "_25")):
        place = "LayerNorm_1/" if number == "_10" else "LayerNorm/"
        values = renamed(pattern + place, f"{pattern}layer_normalization{number}/")(values)
    return values


FORMS = {
    "in a scope": renamed("^(bert|cls)/", r"tower_0/module/\1/"),
    "LayerNorms that Keras named": keras_names,
    "slots": lambda values: (
        values
        | {
            f"{name}/{slot}": value
            for name, value in values.items()
            if name.startswith(("bert/", "cls/")) and "lamb" not in name
            for slot in ("Adam", "LAMBOptimizer_1")
        }
        | {name: np.float32(0.9) for name in ("beta1_power", "loss_scale")}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_the_same(google_folder, tmp_path, golden, form):
    rewrite(google_folder, FORMS[form])
    assert convert("google", "run", google_folder, tmp_path / "run").newly_initialized == []
    check_weights(tmp_path / "run", golden / "tf1" / "shared")


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_other_floats(google_folder, tmp_path, golden, dtype):
    kind = dtype.as_numpy_dtype
    rewrite(
        google_folder,
        lambda found: {name: v.astype(kind) if v.dtype.kind == "f" else v for name, v in found.items()},
    )
    convert("google", "run", google_folder, tmp_path / "run")
    exact = tf1.read(golden / "tf1" / "shared" / "model.ckpt-best")["bert/pooler/dense/kernel"]
    kernel = albert_tf.load(tmp_path / "run").encoder.pooler.kernel.numpy()
    np.testing.assert_array_equal(kernel, exact.astype(kind).astype(np.float32))


@pytest.mark.parametrize("prefix", ["", "module/"])
@pytest.mark.parametrize(
    ("head", "task"),
    [("output", {"model": "classifier", "num_labels": 2}), ("cls/squad/output", {"model": "span_labeler"})],
)
def test_fine_tuned_heads(google_folder, tmp_path, prefix, head, task):
    """Those of run_classifier and run_squad_v1; fine-tuned from a module, pre-training's are still there."""
    weights = np.arange(2 * 32, dtype=np.float32).reshape(2, 32)
    added = {f"{head}_weights": weights, f"{head}_bias": np.ones([2], np.float32)}
    change = renamed("^(bert|cls)/", rf"{prefix}\1/") if prefix else without("cls/")
    rewrite(google_folder, lambda values: {**change(values), **added})
    done = convert("google", "run", google_folder, tmp_path / "run")
    assert RunDirectory(tmp_path / "run").task == task and done.newly_initialized == []
    np.testing.assert_array_equal(albert_tf.load(tmp_path / "run").variables[-2].numpy(), weights)
    assert len([name for name in done.unused if "cls/" in name]) == (7 if prefix else 0)


def test_embedding_size_of_the_hidden_size(golden, tmp_path):
    """google-research/albert projects only where they differ; a checkpoint that has a projection keeps it."""
    folder = shutil.copytree(golden / "tf1" / "unshared", tmp_path / "google")
    convert("google", "run", folder, tmp_path / "without")
    assert not RunDirectory(tmp_path / "without").config.has_projection
    scope = "bert/encoder/embedding_hidden_mapping_in"
    added = {f"{scope}/kernel": np.ones([32, 32], np.float32), f"{scope}/bias": np.ones([32], np.float32)}
    rewrite(folder, lambda values: {**values, **added})
    convert("google", "run", folder, tmp_path / "run")
    np.testing.assert_array_equal(
        albert_tf.load(tmp_path / "run").encoder.projection.kernel, np.ones([32, 32])
    )
    with pytest.raises(InputError, match="project_embeddings=True"):
        convert("run", "google", tmp_path / "run", tmp_path / "back")


BAD = {
    "type": (
        lambda v: {**v, "bert/pooler/dense/bias": np.zeros([32], np.int32)},
        "bert/pooler/dense/bias is of type int32",
    ),
    "no number": (
        lambda v: {**v, "bert/pooler/dense/bias": np.full([32], np.nan, np.float32)},
        "bert/pooler/dense/bias holds NaN or infinity",
    ),
    "two models": (
        lambda v: {**v, "ema/bert/embeddings/word_embeddings": np.zeros([120, 16], np.float32)},
        "several models: bert/embeddings/word_embeddings, ema/bert/",
    ),
    "output layer of another width": (
        lambda v: {**v, "output_weights": np.zeros([3, 16]), "output_bias": np.zeros([2])},
        r"output_weights is \[3, 16\], .* \[3, 32\]; output_bias is \[2\], .* \[3\]",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_named_and_nothing_written(google_folder, tmp_path, change, message):
    rewrite(google_folder, change)
    with pytest.raises(InputError, match=message):
        convert("google", "run", google_folder, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["google"]


@pytest.mark.parametrize("partial", [False, True])
def test_layout_of_another_project(shared, tmp_path, partial):
    folder = shared / "golden" / "tf1_index" / "zh_albert_tiny_brightmart"
    with pytest.raises(InputError, match="brightmart/albert_zh"):
        convert("google", "run", folder, tmp_path / "run", partial=partial)


def test_partial_takes_the_encoder_and_names_the_rest(google_folder, tmp_path):
    rewrite(google_folder, without("pooler/"))
    conversion = convert("google", "run", google_folder, tmp_path / "run", partial=True)
    assert conversion.newly_initialized == ["pooler/dense/kernel", "pooler/dense/bias"]
    assert "cls/predictions/output_bias" in conversion.unused
    assert isinstance(albert_tf.load(tmp_path / "run"), albert_tf.AlbertEncoder)
    rewrite(google_folder, without("bert/"))
    with pytest.raises(InputError, match="none of the encoder's variables is there"):
        convert("google", "run", google_folder, tmp_path / "run2", partial=True)


SMALL = TINY.replace(num_hidden_layers=2)
MODELS = {
    "sop": albert_tf.AlbertPretrainer,
    "classifier": lambda config: albert_tf.AlbertClassifier(config, num_labels=3),
    "span_labeler": albert_tf.AlbertSpanLabeler,
    "answerability": lambda config: albert_tf.AlbertSpanLabeler(config, answerability=True),
    "token_classifier": lambda config: albert_tf.AlbertTokenClassifier(config, num_labels=3),
    "multiple_choice": lambda config: albert_tf.AlbertMultipleChoice(config, num_choices=4),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_saver_of_tf1_restores_what_is_written(tmp_path, kind):
    """Into a graph with google-research/albert's variables."""
    model = MODELS[kind](SMALL.replace(sharing="none"))
    albert_tf.save(model, tmp_path / "run", step=7)
    convert("run", "google", tmp_path / "run", tmp_path / "google")
    google = variable_map("google", model.config, task_of(model))
    values = {google[v.name.removesuffix(":0")].name: v.numpy() for v in model.variables}
    with tf.Graph().as_default():
        variables = {
            name: tf.compat.v1.get_variable(name, shape=value.shape) for name, value in values.items()
        }
        step = tf.compat.v1.train.create_global_step()
        with tf.compat.v1.Session() as session:
            tf.compat.v1.train.Saver().restore(session, str(tmp_path / "google" / "model.ckpt-best"))
            for name, variable in variables.items():
                np.testing.assert_array_equal(session.run(variable), values[name])
            assert session.run(step) == 7
    config = json.loads((tmp_path / "google" / "albert_config.json").read_text())
    assert config["num_hidden_groups"] == 2 and not {"sharing", "layer_norm_eps"} & config.keys()
    expected = task_of(model)
    if kind == "multiple_choice":  # there a checkpoint does not say how many choices, and is of a regression
        expected = {"model": "classifier", "num_labels": 1}
    convert("google", "run", tmp_path / "google", tmp_path / "back")
    assert RunDirectory(tmp_path / "back").task == expected
