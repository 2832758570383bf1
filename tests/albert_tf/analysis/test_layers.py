"""What layers and heads do to text, against NumPy by hand, and the files of it."""

import csv
import itertools

import numpy as np
import pytest

import albert_tf
from albert_tf import cli
from albert_tf.analysis.hidden_states import attention_maps, layer_changes
from tests.albert_tf.commands import mistake
from tests.albert_tf.models.oracles import numpy_softmax, perturbed
from tests.tiny import DOCUMENTS, TINY

IDS = np.array([[2, 7, 9, 11, 3], [2, 8, 3, 0, 0]], np.int32)
INPUTS = {"input_word_ids": IDS, "input_mask": (IDS > 0).astype(np.int32), "input_type_ids": 0 * IDS}


@pytest.fixture(scope="module", params=["none", "all"])
def encoder(request):
    return perturbed(albert_tf.AlbertEncoder(TINY.replace(sharing=request.param)))


def states_of(encoder):
    """The hidden states before and after each layer, float64 [L + 1, B, S, H]."""
    outputs = encoder(INPUTS)
    weights = {variable.name.partition(":")[0]: variable.numpy() for variable in encoder.variables}
    scope = "encoder/embedding_hidden_mapping_in"
    first = outputs["embedding_output"] @ weights[f"{scope}/kernel"] + weights[f"{scope}/bias"]
    return np.stack([first, *outputs["encoder_outputs"]]).astype(float), weights


def test_attention_maps(encoder):
    found = attention_maps(encoder, INPUTS)
    states, weights = states_of(encoder)
    assert found.shape == (2, 3, 4, 5, 5)
    for layer, row in itertools.product(range(3), range(2)):
        tokens = INPUTS["input_mask"][row] > 0
        group = layer if encoder.config.sharing == "none" else 0
        scope = f"encoder/transformer/group_{group}/inner_group_0/attention_1/self"
        query, key = (
            states[layer, row] @ weights[f"{scope}/{part}/kernel"] + weights[f"{scope}/{part}/bias"]
            for part in ("query", "key")
        )
        for head in range(4):
            columns = slice(8 * head, 8 * head + 8)
            scores = query[:, columns] @ key[:, columns].T / np.sqrt(8)
            expected = numpy_softmax(np.where(tokens, scores, -np.inf))
            np.testing.assert_allclose(found[row, layer, head], expected, atol=1e-5)


def test_layer_changes(encoder):
    """Means over all tokens of all batches, whatever the batches."""
    states, _ = states_of(encoder)
    tokens = states[:, INPUTS["input_mask"] > 0]  # [L + 1, T, H]
    expected = []
    for before, after in itertools.pairwise(tokens):
        distances = [np.sqrt(((a - b) ** 2).sum()) for a, b in zip(after, before, strict=True)]
        cosines = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in zip(after, before, strict=True)]
        expected.append((np.mean(distances), np.mean(cosines)))
    rows = [{name: value[row : row + 1] for name, value in INPUTS.items()} for row in range(2)]
    np.testing.assert_allclose(layer_changes(encoder, [INPUTS]), expected, rtol=1e-5)
    np.testing.assert_allclose(layer_changes(encoder, rows), expected, rtol=1e-5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, tiny_vocabulary):
    folder = tmp_path_factory.mktemp("runs")
    for name, sharing in (("shared", "all"), ("own", "none")):
        model = albert_tf.AlbertPretrainer(TINY.replace(sharing=sharing))
        albert_tf.save(model, folder / name, vocabulary=tiny_vocabulary)
    (folder / "texts.txt").write_text("\n".join(["", *DOCUMENTS[0]]) + "\n")
    return folder


def test_the_files(runs, capsys):
    given = ["--run", runs / "shared", "--input", runs / "texts.txt", "--output"]
    words = ["analyse", "layers", *given, runs / "layers", "--against", runs / "own"]
    assert cli.run([*map(str, words)]) == 0
    assert capsys.readouterr().out == f"{runs / 'layers'}\n"
    rows = list(csv.DictReader((runs / "layers/layers.csv").open()))
    assert [(row["run"], row["layer"]) for row in rows] == [
        (str(runs / name), str(layer)) for name in ("shared", "own") for layer in (1, 2, 3)
    ]
    assert all(float(row["L2 distance"]) > 0 and -1 <= float(row["cosine similarity"]) <= 1 for row in rows)

    words = ["analyse", "attention", *given, runs / "maps", "--max_texts", 2, "--seq_length", 8]
    assert cli.run([*map(str, words)]) == 0
    names = {path.name for path in (runs / "maps").iterdir()}
    assert names == {"attention.csv", "attention-0.png", "attention-1.png"}
    rows = list(csv.DictReader((runs / "maps/attention.csv").open()))
    assert len(rows) == 2 * 3 * 4 * 8 * 8  # both texts are longer than 8 tokens
    assert {row["from piece"] for row in rows if row["from"] == "0"} == {"[CLS]"}
    sums = np.zeros([2, 3, 4, 8])
    for row in rows:
        place = int(row["text"]), int(row["layer"]) - 1, int(row["head"]) - 1, int(row["from"])
        sums[place] += float(row["probability"])
    np.testing.assert_allclose(sums, 1, atol=1e-5)
    for path in (runs / "layers/layers.png", *(runs / "maps").glob("*.png")):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_byte_order_mark_is_not_text(byte_pairs, tmp_path):
    """A tokenizer of bytes would see it."""
    albert_tf.save(albert_tf.AlbertEncoder(TINY.replace(vocab_size=300)), tmp_path / "run", byte_pairs)
    found = []
    for name, mark in (("plain", ""), ("marked", "\ufeff")):
        (tmp_path / "text.txt").write_text(f"{mark}The hive\n", encoding="utf-8")
        output = tmp_path / name
        words = ["--run", tmp_path / "run", "--input", tmp_path / "text.txt", "--output", output]
        assert cli.run(["analyse", "attention", *map(str, words)]) == 0
        found.append((output / "attention.csv").read_text())
    assert found[0] == found[1]


def test_mistakes_are_one_line(runs, capsys):
    (runs / "empty.txt").write_text("\n\n")
    cases = {
        ("--input", runs / "nowhere.txt"): "nowhere.txt",
        ("--input", runs / "empty.txt"): "empty.txt",
        ("--seq_length", 65): "--seq_length=65",
        ("--max_texts", 0): "--max_texts=0",
        ("--output", runs / "texts.txt"): "texts.txt",
    }
    for kind in ("layers", "attention"):
        for (flag, value), expected in cases.items():
            given = {"--run": runs / "shared", "--input": runs / "texts.txt", "--output": runs / "new"}
            words = [word for pair in {**given, flag: value}.items() for word in pair]
            assert expected in mistake(capsys, "analyse", kind, *words), (kind, flag)
    assert not (runs / "new").exists()
