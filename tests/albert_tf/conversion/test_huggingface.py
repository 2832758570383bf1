"""Folders of transformers against what transformers computed from them."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.conversion.huggingface_config import HUGGING_FACE_ACTIVATION_NAMES, hugging_face_config
from albert_tf.errors import InputError
from albert_tf.runs.build_model import task_of
from albert_tf.runs.run_directory import RunDirectory
from tests.albert_tf.conversion.huggingface_files import change_weights
from tests.tiny import TINY, change_json

CASES = {
    "pretraining": {"model": "pretrainer", "sentence_objective": "sop"},
    "groups": {"model": "pretrainer", "sentence_objective": "sop"},
    "sequence_classification": {"model": "classifier", "num_labels": 3},
    "question_answering": {"model": "span_labeler"},
}
OUTPUTS = (
    "encoder_outputs",
    "sequence_output",
    "pooled_output",
    "logits",
    "sop_logits",
    "start_logits",
    "end_logits",
)


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_back(golden, tmp_path, case):
    """What is written again has the names, shapes and values of what transformers wrote."""
    theirs, ours = golden / "hf" / case, tmp_path / "hf"
    done = convert("huggingface", "run", theirs, tmp_path / "run")
    # AlbertForQuestionAnswering has no pooler.
    pooler = ["pooler/dense/kernel", "pooler/dense/bias"] if case == "question_answering" else []
    assert done[:2] == ([], pooler)
    model = albert_tf.load(tmp_path / "run")
    assert task_of(model) == CASES[case]
    expected = dict(np.load(theirs / "expected.npz"))
    inputs = {name: value for name, value in expected.items() if name.startswith("input_")}
    batch, length = inputs["input_word_ids"].shape
    if "prediction_logits" in expected:
        inputs["masked_lm_positions"] = np.tile(np.arange(length, dtype=np.int32), [batch, 1])
    # A task model gives out the logits alone, the pre-trainer both.
    outputs = {**model.encoder(inputs), **model(inputs)}
    outputs["encoder_outputs"] = tf.stack(outputs["encoder_outputs"])
    names = {name: name for name in OUTPUTS} | {"prediction_logits": "mlm_logits"}
    compared = expected.keys() & names.keys()
    assert compared == expected.keys() - inputs.keys()
    for name in compared:
        np.testing.assert_allclose(outputs[names[name]], expected[name], rtol=0, atol=1e-5, err_msg=name)

    convert("run", "huggingface", tmp_path / "run", ours)
    before, after = (load_file(path / "model.safetensors") for path in (theirs, ours))
    added = {"albert.pooler.weight", "albert.pooler.bias"} if case == "question_answering" else set()
    assert after.keys() - before.keys() == added
    np.testing.assert_equal({name: after[name] for name in before}, before)
    theirs, ours = (json.loads((path / "config.json").read_text()) for path in (theirs, ours))
    del theirs["transformers_version"]
    assert {key: ours.get(key) for key in theirs} == theirs


def kernel(run):
    model = albert_tf.load(run)
    return model.encoder.pooler.kernel.numpy()


@pytest.mark.parametrize("prefix", ["", "module.albert.", "model.encoder."])
def test_other_prefixes(hf_folder, tmp_path, prefix):
    """AlbertModel alone is saved without one; parallel training adds one."""

    def change(values):
        heads = prefix.removesuffix("albert.") if "albert." in prefix else ""
        encoder = {name.replace("albert.", prefix, 1): v for name, v in values.items() if "albert." in name}
        return encoder | {heads + name: v for name, v in values.items() if "albert." not in name and prefix}

    expected = load_file(hf_folder / "model.safetensors")["albert.pooler.weight"].T
    change_weights(hf_folder, change)
    convert("huggingface", "run", hf_folder, tmp_path / "run")
    np.testing.assert_array_equal(kernel(tmp_path / "run"), expected)
    assert RunDirectory(tmp_path / "run").task["model"] == ("pretrainer" if prefix else "encoder")


def test_embedding_size_of_the_hidden_size(tmp_path):
    """transformers always projects: by nothing where there was none, and that comes back as none."""
    same = TINY.replace(embedding_size=32, num_hidden_layers=1)
    for name, config in (("without", same), ("with", same.replace(project_embeddings=True))):
        model = albert_tf.AlbertEncoder(config)
        albert_tf.save(model, tmp_path / name)
        convert("run", "huggingface", tmp_path / name, tmp_path / f"{name} hf")
        written = load_file(tmp_path / f"{name} hf" / "model.safetensors")
        projection = written["albert.encoder.embedding_hidden_mapping_in.weight"]
        assert np.array_equal(projection, np.eye(32)) is (name == "without")
        convert("huggingface", "run", tmp_path / f"{name} hf", tmp_path / f"{name} back")
        back = albert_tf.load(tmp_path / f"{name} back")
        assert back.config == config
        np.testing.assert_equal(back.get_weights(), model.get_weights())


def test_activations():
    for activation in HUGGING_FACE_ACTIVATION_NAMES:
        config = TINY.replace(hidden_act=activation)
        written = hugging_face_config(config, {"model": "encoder"})
        assert albert_tf.AlbertConfig.from_dict(written).replace(project_embeddings=None) == config


def test_labels_choices_and_how_texts_are_read(tmp_path, caplog):
    small = TINY.replace(num_hidden_layers=1)
    labels = {"labels": ["entailment", "neutral", "contradiction"]}
    models = {
        "classifier": (albert_tf.AlbertClassifier(small, num_labels=3), labels),
        "regression": (albert_tf.AlbertClassifier(small, num_labels=1), {}),
        "sets": (
            albert_tf.AlbertClassifier(small, num_labels=3),
            {**labels, "multi_label": True, "threshold": 0.3},
        ),
        "tokens": (albert_tf.AlbertTokenClassifier(small, num_labels=3), labels),
        "marks": (albert_tf.AlbertTokenClassifier(small, num_labels=3), {**labels, "words": "punctuation"}),
        "long": (
            albert_tf.AlbertClassifier(small, num_labels=3),
            {**labels, "long": "windows", "doc_stride": 8, "window_pooling": "max", "seq_length": 24},
        ),
        "spans": (
            albert_tf.AlbertSpanLabeler(small),
            {"seq_length": 48, "max_query_length": 9, "doc_stride": 8, "max_answer_length": 7, "n_best": 3},
        ),
        "choice": (albert_tf.AlbertMultipleChoice(small, num_choices=5), {}),
        "nsp": (albert_tf.AlbertPretrainer(small, sentence_objective="nsp"), {}),
        "mlm": (albert_tf.AlbertPretrainer(small, sentence_objective="none"), {}),
    }
    for name, (model, task) in models.items():
        albert_tf.save(model, tmp_path / name, task=task)
        convert("run", "huggingface", tmp_path / name, tmp_path / f"{name} hf")
        convert("huggingface", "run", tmp_path / f"{name} hf", tmp_path / f"{name} back")
        longest = {} if name in ("nsp", "mlm") else {"seq_length": 64}  # all positions
        assert RunDirectory(tmp_path / f"{name} back").task == {**task_of(model), **longest, **task}
    lines = [
        line for line in caplog.messages if "has long='windows': other programs read the first 24" in line
    ]
    assert len(lines) == 1
    assert json.loads((tmp_path / "spans hf/tokenizer_config.json").read_text())["model_max_length"] == 48
    config = json.loads((tmp_path / "classifier hf" / "config.json").read_text())
    assert config["id2label"] == dict(zip("012", labels["labels"], strict=True))
    assert config["label2id"] == {"entailment": 0, "neutral": 1, "contradiction": 2}
    problems = {"classifier": "single_label", "sets": "multi_label"}
    for name in ("classifier", "regression", "sets"):
        config = json.loads((tmp_path / f"{name} hf" / "config.json").read_text())
        kind = f"{problems[name]}_classification" if name in problems else name
        assert config["problem_type"] == kind


def test_token_classification(golden, tmp_path):
    """The head of sequence classification, and no pooler: transformers' class tells them apart."""
    folder = shutil.copytree(golden / "hf" / "sequence_classification", tmp_path / "hf")
    change_json(folder / "config.json", architectures=["AlbertForTokenClassification"])
    weights = load_file(folder / "model.safetensors")
    change_weights(folder, lambda found: {name: x for name, x in found.items() if "pooler" not in name})
    done = convert("huggingface", "run", folder, tmp_path / "run")
    assert done[:2] == ([], ["pooler/dense/kernel", "pooler/dense/bias"])
    assert RunDirectory(tmp_path / "run").task["words"] == "punctuation"  # of elsewhere
    model = albert_tf.load(tmp_path / "run")
    expected = dict(np.load(folder / "expected.npz"))
    inputs = {name: value for name, value in expected.items() if name.startswith("input_")}
    logits = expected["sequence_output"] @ weights["classifier.weight"].T + weights["classifier.bias"]
    np.testing.assert_allclose(model(inputs)["logits"], logits, rtol=0, atol=1e-5)


@pytest.fixture
def classifier_folder(golden, tmp_path):
    """A recorded folder of transformers with a classifier of three labels, to be changed."""
    return shutil.copytree(golden / "hf" / "sequence_classification", tmp_path / "classifier")


NAMES = {"0": "a", "1": "b", "2": "c"}


@pytest.mark.parametrize(
    "values",
    [
        {"architectures": [5]},
        {"architectures": "AlbertForSequenceClassification"},
        {"id2label": ["a"]},
        {"id2label": {"0": "a", "1": "b"}},
        {"id2label": {"a": "a", "1": "b", "2": "c"}},
        {"id2label": {**NAMES, "3": "d"}},
        {"id2label": {**NAMES, "2": None}},
        {"id2label": {**NAMES, "2": True}},
        {"id2label": {**NAMES, "2": "b"}},
        {"id2label": {**NAMES, "2": ""}},
        {"threshold": "x"},
        {"threshold": 0.5},  # of three labels
        {"threshold": 2},
        {"threshold": float("nan")},
        {"problem_type": "regression"},
        {"problem_type": "softmax"},
        {"num_choices": "x", "architectures": ["AlbertForMultipleChoice"]},
        {"quantization_config": {"bits": 4}},
        {"pruned_heads": {"0": [1]}},
        {"auto_map": {"AutoModel": "code.Model"}},
        {"is_encoder_decoder": True},
        {"tokenizer_class": ["AlbertTokenizer"]},
    ],
)
def test_values_of_config_json_are_refused_by_file_and_key(
    values, classifier_folder, tiny_vocabulary, tmp_path
):
    shutil.copy(tiny_vocabulary, classifier_folder)
    change_json(classifier_folder / "config.json", **values)
    with pytest.raises(InputError, match=rf"config\.json: \W*{next(iter(values))}"):
        convert("huggingface", "run", classifier_folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_that_are_numbers_are_spelled(classifier_folder, tmp_path):
    change_json(classifier_folder / "config.json", id2label={"2": 7, "0": 0, "1": -5})
    convert("huggingface", "run", classifier_folder, tmp_path / "run")
    assert RunDirectory(tmp_path / "run").task["labels"] == ["0", "-5", "7"]


def test_keys_of_config_json(caplog):
    """An unknown one is told, as are those of runs and of other families."""
    bert = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 4}
    config = albert_tf.AlbertConfig.from_dict(bert)
    assert caplog.text == ""
    others = {"sharing": "all", "pooler": "relu", "num_hidden_groups": 3, "embedding_size": 8, "dim": 5}
    assert albert_tf.AlbertConfig.from_dict({**bert, **others, "rotary": True, "_private": 1}) == config
    assert all(name in caplog.text for name in [*others, "rotary"]) and "_private" not in caplog.text


@pytest.mark.parametrize(
    ("modes", "warning"),
    [
        ({"cls_token": False, "mean_tokens": True}, None),
        ({"cls_token": True, "mean_tokens": False}, 'pooling="first"'),
        ({"max_tokens": True}, "pools by max_tokens:"),
        ({"max_tokens": True, "mean_tokens": True}, "pools by max_tokens and mean_tokens"),
    ],
)
def test_another_pooling_of_sentence_transformers_is_told(hf_folder, tmp_path, caplog, modes, warning):
    """Embeddings are means here, which would be other ones without a word."""
    values = {
        "word_embedding_dimension": 8,
        "include_prompt": True,
        **{f"pooling_mode_{name}": x for name, x in modes.items()},
    }
    (hf_folder / "1_Pooling").mkdir()
    (hf_folder / "1_Pooling/config.json").write_text(json.dumps(values))
    convert("huggingface", "run", hf_folder, tmp_path / "run")
    found = [message for message in caplog.messages if "1_Pooling" in message]
    assert (warning is None and not found) or (len(found) == 1 and warning in found[0])


def test_modules_and_length_of_sentence_transformers(hf_folder, tmp_path, caplog):
    types = ("Transformer", "Pooling", "Dense")
    modules = [{"idx": n, "type": f"sentence_transformers.models.{name}"} for n, name in enumerate(types)]
    (hf_folder / "modules.json").write_text(json.dumps(modules))
    (hf_folder / "sentence_bert_config.json").write_text('{"max_seq_length": 24}')
    convert("huggingface", "run", hf_folder, tmp_path / "run")
    assert RunDirectory(tmp_path / "run").task["seq_length"] == 24
    (line,) = [message for message in caplog.messages if "modules.json" in message]
    assert "before Dense, which is not read" in line


def test_roberta_positions_begin_behind_padding():
    roberta = {"model_type": "roberta", "max_position_embeddings": 40}
    for values, offset in (({}, 2), ({"pad_token_id": 4}, 5)):
        config = albert_tf.AlbertConfig.from_dict({**roberta, **values})
        assert (config.position_offset, config.max_position_embeddings) == (offset, 40 - offset)
    with pytest.raises(InputError, match="pad_token_id"):
        albert_tf.AlbertConfig.from_dict({**roberta, "pad_token_id": None})
