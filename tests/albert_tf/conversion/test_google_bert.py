"""google-research/bert's checkpoints against what its code computed from them, and back."""

import json
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
from tests.albert_tf.models.oracles import check_gradients


@pytest.fixture
def bert_tf1(shared):
    return shared / "golden" / "family" / "bert_tf1"


def log_likelihoods(log_probs, labels):
    return tf.gather(log_probs, labels, batch_dims=len(labels.shape))


def test_google_bert_and_back(bert_tf1, tmp_path):
    """Outputs, losses and gradients, and what is written again."""
    done = convert("google", "run", bert_tf1, tmp_path / "run")
    assert done[:2] == ([], [])
    model = albert_tf.load(tmp_path / "run")
    assert task_of(model) == {"model": "pretrainer", "sentence_objective": "nsp"}
    expected = dict(np.load(bert_tf1 / "expected.npz"))
    names = [name for name in expected if name.startswith("input_")]
    inputs = {name: expected[name] for name in (*names, "masked_lm_positions")}
    with tf.GradientTape() as tape:
        outputs = model(inputs)
        mlm = tf.nn.log_softmax(outputs["mlm_logits"])
        nsp = tf.nn.log_softmax(outputs["nsp_logits"])
        weights = expected["masked_lm_weights"]
        total = tf.reduce_sum(-log_likelihoods(mlm, expected["masked_lm_ids"]) * weights)
        mlm_loss = total / (weights.sum() + 1e-5)
        nsp_loss = -tf.reduce_mean(log_likelihoods(nsp, expected["next_sentence_labels"]))
        loss = mlm_loss + nsp_loss
    outputs["encoder_outputs"] = tf.stack(outputs["encoder_outputs"])
    found = {**outputs, "mlm_log_probs": mlm, "nsp_log_probs": nsp}
    found |= {"mlm_loss": mlm_loss, "nsp_loss": nsp_loss}
    compared = {name for name in expected.keys() & found.keys() if name not in inputs}
    assert len(compared) == 7
    for name in compared:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-5, err_msg=name)
    google = variable_map("google", model.config, task_of(model))
    gradients = tape.gradient(loss, model.trainable_variables)
    names = [google[variable.name.removesuffix(":0")].name for variable in model.trainable_variables]
    check_gradients(names, gradients, expected)

    convert("run", "google", tmp_path / "run", tmp_path / "google")
    theirs, ours = tf1.read(bert_tf1 / "bert_model.ckpt"), tf1.read(tmp_path / "google" / "bert_model.ckpt")
    del ours["global_step"]
    np.testing.assert_equal(ours, theirs)
    written = [
        json.loads((folder / "bert_config.json").read_text()) for folder in (bert_tf1, tmp_path / "google")
    ]
    assert written[0] == written[1]


def test_optimizer_and_heads_of_google_bert(bert_tf1, tmp_path):
    """Of Adam as run_pretraining leaves it, and of run_classifier and run_squad."""
    folder = shutil.copytree(bert_tf1, tmp_path / "google")
    values = tf1.read(folder / "bert_model.ckpt")
    slots = {f"{name}/{slot}": value for name, value in values.items() for slot in ("adam_m", "adam_v")}
    encoder = {name: value for name, value in values.items() if name.startswith("bert/")}
    rows = np.ones([2, 32], np.float32)
    heads = {
        "classifier": {"output_weights": rows, "output_bias": rows[:, 0]},
        "span_labeler": {"cls/squad/output_weights": rows, "cls/squad/output_bias": rows[:, 0]},
        "pretrainer": {name: value for name, value in values.items() if name.startswith("cls/")},
        "encoder": {},
    }
    for kind, head in heads.items():
        tf1.write(folder / "bert_model.ckpt", {**encoder, **head, "global_step": np.int64(3), **slots})
        if kind != "pretrainer":
            keep = {name: slots[name] for name in slots if name.startswith("bert/")}
            tf1.write(folder / "bert_model.ckpt", {**encoder, **head, **keep})
        done = convert("google", "run", folder, tmp_path / kind)
        assert done.newly_initialized == [] and RunDirectory(tmp_path / kind).task["model"] == kind


def test_a_config_of_albert_beside_bert(bert_tf1, tmp_path):
    folder = shutil.copytree(bert_tf1, tmp_path / "google")
    config = albert_tf.AlbertConfig.from_json_file(folder / "bert_config.json").replace(sharing="all")
    (tmp_path / "albert_config.json").write_text(config.to_json_string())
    with pytest.raises(InputError, match="layout is that of BERT"):
        convert("google", "run", folder, tmp_path / "run", config=tmp_path / "albert_config.json")
    assert not (tmp_path / "run").exists()
