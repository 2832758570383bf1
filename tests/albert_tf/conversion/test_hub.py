"""Modules of TF Hub: TensorFlow Model Garden's TF 2 encoder, and the variables of a TF 1 module."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import RunDirectory
from tests.albert_tf.conversion import tf1
from tests.albert_tf.pretraining.runs import weights
from tests.tiny import TINY


def test_outputs_and_config(shared, tmp_path):
    module = shared / "golden" / "tfhub"
    assert convert("hub", "run", module, tmp_path / "run")[:2] == ([], [])
    model = albert_tf.load(tmp_path / "run")
    with np.load(module / "expected.npz") as arrays:
        expected = dict(arrays)
    outputs = model({name: value for name, value in expected.items() if name.startswith("input_")})
    outputs["encoder_outputs"] = tf.stack(outputs["encoder_outputs"])
    outputs["default"] = outputs["pooled_output"]
    for name in ("encoder_outputs", "sequence_output", "pooled_output", "default"):
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5, err_msg=name)
    # encoder_config.json, which no published module has, says the same.
    assert model.config == albert_tf.AlbertConfig(
        vocab_size=30000,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    asset = module / "assets" / "30k-clean.model"
    assert RunDirectory(tmp_path / "run").vocabulary.read_bytes() == asset.read_bytes()


def test_config_that_is_given(module, tmp_path):
    convert("hub", "run", module, tmp_path / "run")
    config = albert_tf.load(tmp_path / "run").config
    path = tmp_path / "config.json"
    path.write_text(config.replace(num_hidden_layers=7).to_json_string())
    convert("hub", "run", module, tmp_path / "deeper", config=path)
    assert albert_tf.load(tmp_path / "deeper").config.num_hidden_layers == 7
    for changes, message in (
        ({"num_attention_heads": 2}, r"query/kernel is \[32, 4, 8\], the config says \[32, 2, 16\]"),
        ({"num_hidden_groups": 2}, "num_hidden_groups=1"),
    ):
        path.write_text(config.replace(**changes).to_json_string())
        with pytest.raises(InputError, match=message):
            convert("hub", "run", module, tmp_path / "no", config=path)


def test_damaged(module, tmp_path):
    graph = module / "saved_model.pb"
    content = graph.read_bytes()
    for damaged, message in (
        (content[:-100], r"saved_model\.pb is not a SavedModel, or damaged"),
        (b"", r"saved_model\.pb does not tell num_hidden_layers, hidden_act"),
    ):
        graph.write_bytes(damaged)
        with pytest.raises(InputError, match=message):
            convert("hub", "run", module, tmp_path / "run")
    graph.unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no saved_model\.pb"):
        convert("hub", "run", module, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]


def test_tf1_module(golden, tmp_path):
    """Its variables have the names of the checkpoint it was made of; its assets may hold the config."""
    source, module = golden / "tf1" / "groups", tmp_path / "hub"
    values = tf1.read(source / "model.ckpt-best")
    values = {k: v for k, v in values.items() if k != "global_step" and not k.endswith("lamb_m")}
    tf1.write(module / "variables" / "variables", values)
    (module / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InputError, match="does not tell its config: name it with `config`"):
        convert("hub", "run", module, tmp_path / "run")
    convert("hub", "run", module, tmp_path / "named", config=source / "albert_config.json")
    (module / "assets").mkdir()
    shutil.copy(source / "albert_config.json", module / "assets")
    convert("hub", "run", module, tmp_path / "beside")
    convert("google", "run", source, tmp_path / "expected")
    assert type(albert_tf.load(tmp_path / "beside")) is albert_tf.AlbertPretrainer
    for name in ("named", "beside"):
        assert RunDirectory(tmp_path / name).config == RunDirectory(tmp_path / "expected").config
        np.testing.assert_equal(weights(tmp_path / name), weights(tmp_path / "expected"))


def test_a_published_encoder_of_bert(tmp_path):
    """By the names of TensorFlow Model Garden, as bert_en_uncased_L-12_H-768_A-12 has them, and its head."""
    config = TINY.replace(sharing="none", embedding_size=TINY.hidden_size)
    encoder = albert_tf.AlbertEncoder(config)
    heads = [config.num_attention_heads, config.hidden_size // config.num_attention_heads]
    theirs = {
        "embeddings/word_embeddings": "word_embeddings/embeddings",
        "embeddings/token_type_embeddings": "type_embeddings/embeddings",
        "embeddings/position_embeddings": "position_embedding/embeddings",
        "embeddings/LayerNorm": "embeddings/layer_norm",
        "pooler/dense": "pooler_transform",
        "attention_1/self": "self_attention",
        "attention_1/output/dense": "self_attention/attention_output",
        "LayerNorm": "self_attention_layer_norm",
        "ffn_1/intermediate/output/dense": "output",
        "ffn_1/intermediate/dense": "intermediate",
        "LayerNorm_1": "output_layer_norm",
    }
    head = ["cls/predictions/output_bias", "cls/predictions/transform/dense/kernel"]
    variables = [tf.Variable(False, name="Variable")]  # do_lower_case
    variables += [tf.Variable([1.0], name=name) for name in head]
    for variable in encoder.variables:
        name, value = variable.name.removesuffix(":0"), variable.numpy()
        scope, inner, part = name.rpartition("/inner_group_0/")
        layer = f"transformer/layer_{scope.rpartition('_')[2]}/" if inner else ""
        known = max((prefix for prefix in theirs if part.startswith(prefix)), key=len)
        if "/self/" in part:
            value = value.reshape([*value.shape[:-1], *heads])
        elif "attention_1/output/dense/kernel" in part:
            value = value.reshape([*heads, value.shape[-1]])
        variables.append(tf.Variable(value, name=layer + theirs[known] + part.removeprefix(known)))
    folder = tmp_path / "hub"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"")
    tf.train.Checkpoint(variables=variables).write(str(folder / "variables" / "variables"))
    (tmp_path / "config.json").write_text(config.to_json_string())
    done = convert("hub", "run", folder, tmp_path / "run", config=tmp_path / "config.json")
    assert sorted(done.unused) == head
    np.testing.assert_equal(weights(tmp_path / "run"), {v.name: v.numpy() for v in encoder.variables})
    tokenizer = RunDirectory(tmp_path / "run").tokenizer
    assert (tokenizer["lowercase"], tokenizer["strip_accents"]) == (False, False)
    (tmp_path / "config.json").write_text(TINY.to_json_string())
    with pytest.raises(ValueError, match="sharing='none'"):
        convert("hub", "run", folder, tmp_path / "other", config=tmp_path / "config.json")


@pytest.mark.parametrize("letter", ["W", "w"])
def test_a_wordpiece_vocabulary_decides_about_the_case_of_texts(module, tmp_path, letter):
    """Where the module does not."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{letter}{n}" for n in range(29995))]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    convert("hub", "run", module, tmp_path / "run", vocabulary=tmp_path / "vocab.txt")
    tokenizer = RunDirectory(tmp_path / "run").tokenizer
    assert tokenizer["lowercase"] == tokenizer["strip_accents"] == (letter == "w")
