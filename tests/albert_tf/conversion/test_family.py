"""BERT, RoBERTa and DistilBERT of transformers against what it computed from them, and back."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.errors import InputError
from albert_tf.runs.build_model import task_of
from albert_tf.runs.run_directory import RunDirectory
from tests.albert_tf.conversion.huggingface_files import change_weights
from tests.albert_tf.models.oracles import perturbed
from tests.tiny import TINY, change_json

FAMILIES = ("bert", "roberta", "distilbert")
SMALL = TINY.replace(num_hidden_layers=2, embedding_size=32, sharing="none", hidden_act="gelu_erf")
CONFIGS = {
    "bert": SMALL,
    "roberta": SMALL.replace(position_offset=2, type_vocab_size=1, pooler="none", layer_norm_eps=1e-5),
    "distilbert": SMALL.replace(type_vocab_size=0, pooler="none"),
}


@pytest.fixture
def family_folder(golden, request, tmp_path):
    """Makes a copy of a recorded folder of transformers, to be changed."""

    def copy(family):
        if family == "albert":
            return shutil.copytree(golden / "hf" / "pretraining", tmp_path / family)
        recorded = request.getfixturevalue("shared") / "golden" / "family" / "hf" / family
        return shutil.copytree(recorded, tmp_path / family)

    return copy


@pytest.mark.parametrize("family", FAMILIES)
def test_hugging_face_and_back(shared, tmp_path, family):
    theirs, ours = shared / "golden" / "family" / "hf" / family, tmp_path / "hf"
    done = convert("huggingface", "run", theirs, tmp_path / "run")
    assert done[:2] == ([], [])
    model = albert_tf.load(tmp_path / "run")
    objective = "nsp" if family == "bert" else "none"
    assert task_of(model) == {"model": "pretrainer", "sentence_objective": objective}
    expected = dict(np.load(theirs / "expected.npz"))
    inputs = {name: expected.pop(name) for name in list(expected) if name.startswith("input_")}
    batch, length = inputs["input_word_ids"].shape
    outputs = model({**inputs, "masked_lm_positions": np.tile(np.arange(length), [batch, 1])})
    outputs["hidden_states"] = tf.stack([outputs["embedding_output"], *outputs["encoder_outputs"]])
    if family == "bert":
        outputs["sentence_logits"] = outputs["nsp_logits"]
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=0, atol=1e-5, err_msg=name)

    convert("run", "huggingface", tmp_path / "run", ours)
    before, after = (load_file(folder / "model.safetensors") for folder in (theirs, ours))
    np.testing.assert_equal(after, before)
    found = albert_tf.AlbertConfig.from_json_file(ours / "config.json")
    assert found == RunDirectory(tmp_path / "run").config
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (theirs, ours))
    differing = {key for key in before.keys() & after.keys() if before[key] != after[key]}
    assert differing <= {"classifier_dropout"}  # None there, which means that of the hidden states
    assert after.keys() - before.keys() <= {"sentence_objective"}


HEADS = {
    "encoder": albert_tf.AlbertEncoder,
    "classifier": lambda config: albert_tf.AlbertClassifier(config.with_pooler(), num_labels=3),
    "token_classifier": lambda config: albert_tf.AlbertTokenClassifier(config, num_labels=3),
    "span_labeler": albert_tf.AlbertSpanLabeler,
    "multiple_choice": lambda config: albert_tf.AlbertMultipleChoice(config.with_pooler(), num_choices=5),
    "mlm": lambda config: albert_tf.AlbertPretrainer(config, sentence_objective="none"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_there_and_back(tmp_path, family):
    for kind, make in HEADS.items():
        model = perturbed(make(CONFIGS[family]))
        albert_tf.save(model, tmp_path / kind)
        convert("run", "huggingface", tmp_path / kind, tmp_path / f"{kind} hf")
        done = convert("huggingface", "run", tmp_path / f"{kind} hf", tmp_path / f"{kind} back")
        assert done[:2] == ([], [])
        back = albert_tf.load(tmp_path / f"{kind} back")
        assert task_of(back) == task_of(model) and back.config.pooler == model.config.pooler
        np.testing.assert_equal(back.get_weights(), model.get_weights())


def test_names_of_roberta_classifiers(tmp_path):
    """The pooler is a part of the head; other code leaves that of the encoder in the file, too."""
    model = HEADS["classifier"](CONFIGS["roberta"])
    albert_tf.save(model, tmp_path / "run")
    convert("run", "huggingface", tmp_path / "run", tmp_path / "hf")
    weights = load_file(tmp_path / "hf" / "model.safetensors")
    heads = {f"classifier.{part}.{name}" for part in ("dense", "out_proj") for name in ("weight", "bias")}
    assert {name for name in weights if not name.startswith("roberta.e")} == heads
    np.testing.assert_array_equal(weights["classifier.dense.weight"], model.encoder.pooler.kernel.numpy().T)
    change_weights(
        tmp_path / "hf", lambda w: {**w, "roberta.pooler.dense.weight": w["classifier.dense.weight"].copy()}
    )
    assert convert("huggingface", "run", tmp_path / "hf", tmp_path / "back").unused == [
        "roberta.pooler.dense.weight"
    ]


TIED = {
    "albert": ("predictions.decoder.weight", {"predictions.decoder.bias": "predictions.bias"}),
    "bert": ("cls.predictions.decoder.weight", {"cls.predictions.decoder.bias": "cls.predictions.bias"}),
    "roberta": ("lm_head.decoder.weight", {"lm_head.decoder.bias": "lm_head.bias"}),
    "distilbert": ("vocab_projector.weight", {}),
}


@pytest.mark.parametrize("family", TIED)
def test_what_older_files_repeat(family_folder, tmp_path, family):
    """And what they call LayerNorm's variables."""
    folder, (decoder, biases) = family_folder(family), TIED[family]
    words = f"{family}.embeddings.word_embeddings.weight"

    def repeat(weights):
        weights |= {name: weights[other].copy() for name, other in {decoder: words, **biases}.items()}
        weights[f"{family}.embeddings.position_ids"] = np.arange(32)[None]
        for new, old in (("weight", "gamma"), ("bias", "beta")):
            weights[f"{family}.embeddings.LayerNorm.{old}"] = weights.pop(
                f"{family}.embeddings.LayerNorm.{new}"
            )
        return weights

    change_weights(folder, repeat)
    done = convert("huggingface", "run", folder, tmp_path / "run")
    assert done.unused == sorted({decoder, *biases, f"{family}.embeddings.position_ids"})
    for bias in biases.values():  # the repeated one stands for it
        expected = load_file(folder / "model.safetensors")[bias]
        change_weights(folder, lambda weights, bias=bias: {k: v for k, v in weights.items() if k != bias})
        convert("huggingface", "run", folder, tmp_path / "without")
        np.testing.assert_array_equal(albert_tf.load(tmp_path / "without").mlm.output_bias, expected)
    change_weights(folder, lambda weights: {**weights, decoder: weights[decoder] + 1})
    with pytest.raises(InputError, match=f"{decoder} differs from {words}"):
        convert("huggingface", "run", folder, tmp_path / "run2")


@pytest.mark.parametrize("family", FAMILIES)
def test_encoder_alone(family_folder, tmp_path, family):
    """As the class without a head is saved: no scope, and RoBERTa's with a pooler."""
    folder = family_folder(family)

    def change(weights):
        kept = {name: value for name, value in weights.items() if name.startswith(f"{family}.")}
        if family == "roberta":
            kept |= {"roberta.pooler.dense.weight": np.eye(32), "roberta.pooler.dense.bias": np.ones(32)}
        return {name.removeprefix(f"{family}."): np.float32(value) for name, value in kept.items()}

    change_weights(folder, change)
    assert convert("huggingface", "run", folder, tmp_path / "run")[:2] == ([], [])
    model = albert_tf.load(tmp_path / "run")
    assert task_of(model) == {"model": "encoder"}
    assert model.config.pooler == ("none" if family == "distilbert" else "tanh")


def test_bert_without_a_pooler(family_folder, tmp_path):
    """As BertForMaskedLM is saved: it is read without one, and so it is written."""
    folder = family_folder("bert")
    left_out = ("bert.pooler", "cls.seq_relationship")
    change_weights(folder, lambda weights: {k: v for k, v in weights.items() if not k.startswith(left_out)})
    done = convert("huggingface", "run", folder, tmp_path / "run")
    assert done.newly_initialized == []
    run = RunDirectory(tmp_path / "run")
    assert run.task == {"model": "pretrainer", "sentence_objective": "none"} and run.config.pooler == "none"
    convert("run", "huggingface", tmp_path / "run", tmp_path / "back")
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "back"))
    assert after.keys() == before.keys() - {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    np.testing.assert_equal(after, {name: before[name] for name in after})
    encoder = albert_tf.AlbertEncoder(run.config)  # as BertModel with add_pooling_layer=False
    albert_tf.save(encoder, tmp_path / "encoder")
    convert("run", "huggingface", tmp_path / "encoder", tmp_path / "model")
    assert not any("pooler" in name for name in load_file(tmp_path / "model" / "model.safetensors"))
    convert("huggingface", "run", tmp_path / "model", tmp_path / "again")
    assert RunDirectory(tmp_path / "again").config == run.config


@pytest.mark.parametrize(
    ("family", "changes", "target", "message"),
    [
        ("bert", {}, "google", "google-research/bert cannot express hidden_act='gelu_erf'"),
        ("roberta", {"hidden_act": "gelu"}, "google", "roberta has no such format"),
        ("distilbert", {"hidden_act": "gelu"}, "google", "distilbert has no such format"),
        ("bert", {"pooler": "relu"}, "huggingface", "pooler='relu': transformers' BertModel"),
        ("roberta", {"position_offset": 3}, "huggingface", "position_offset=3: transformers' RobertaModel"),
        ("distilbert", {"pooler": "relu"}, "huggingface", "DistilBertModel has no pooler"),
        ("distilbert", {"layer_norm_eps": 1e-5}, "huggingface", "layer_norm_eps=1e-05"),
    ],
)
def test_what_others_cannot_express(tmp_path, family, changes, target, message):
    albert_tf.save(albert_tf.AlbertEncoder(CONFIGS[family].replace(**changes)), tmp_path / "run")
    with pytest.raises(InputError, match=message):
        convert("run", target, tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_by_whose_padding_transformers_would_count_other_positions(tiny_vocabulary, tmp_path):
    config = CONFIGS["roberta"].replace(vocab_size=TINY.vocab_size)
    albert_tf.save(albert_tf.AlbertEncoder(config), tmp_path / "run", tiny_vocabulary)
    with pytest.raises(InputError, match="padding has id 0"):
        convert("run", "huggingface", tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sentence_objectives_that_transformers_does_not_have(tmp_path):
    model = albert_tf.AlbertPretrainer(CONFIGS["roberta"].with_pooler(), sentence_objective="nsp")
    albert_tf.save(model, tmp_path / "run")
    with pytest.raises(InputError, match="transformers has no RobertaForPreTraining"):
        convert("run", "huggingface", tmp_path / "run", tmp_path / "hf")


def test_a_roberta_whose_head_has_another_activation(family_folder, tmp_path, caplog):
    """transformers computes the head for masked words with the exact GELU, whatever the config says."""
    model = albert_tf.AlbertPretrainer(
        CONFIGS["roberta"].replace(hidden_act="relu"), sentence_objective="none"
    )
    albert_tf.save(model, tmp_path / "run")
    with pytest.raises(InputError, match=r"hidden_act='relu'.*gelu_erf alone"):
        convert("run", "huggingface", tmp_path / "run", tmp_path / "hf")
    folder = family_folder("roberta")
    change_json(folder / "config.json", hidden_act="relu")
    convert("huggingface", "run", folder, tmp_path / "read")
    assert "hidden_act is relu" in caplog.text
