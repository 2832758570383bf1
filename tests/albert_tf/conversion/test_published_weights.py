"""Published weights, of sentence-transformers' MiniLM: from transformers' folder to an exported module.

Its package is in the environment of `make test-slow` (requirements-weights.txt).
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf
import tensorflow_hub as hub
from scipy.stats import spearmanr

import albert_tf
from albert_tf.conversion.compress import compress
from albert_tf.conversion.convert import convert
from albert_tf.tasks.glue import read_glue_split
from albert_tf.text.tokenizer import open_tokenizer
from hub_export.export import export
from hub_export.other_runtimes import export_to
from tests.albert_tf.conversion.published_weights_script import COUNT
from tests.pages import blocks

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("published_weights_script.py")
STS_B = 0.8672  # Spearman on the dev set, as sentence-transformers' own code has it, without training


def run_script(python, folder):
    """Runs transformers on a folder."""
    done = subprocess.run([python, SCRIPT, folder], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def pairs(shared):
    """STS-B's dev set: the texts of each side, and their scores."""
    records = list(read_glue_split("sts-b", shared / "data/glue/STS-B", "dev"))
    assert len(records) == 1500
    sides = ([getattr(record, side) for record in records] for side in ("text", "text_pair"))
    return *sides, [float(record.label) for record in records]


@pytest.fixture(scope="module")
def folder(pairs, interop_python, tmp_path_factory):
    """What transformers makes of texts, the weights, and the run that is made of them."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "texts.json").write_text(json.dumps(pairs[0][:200]), "utf-8")
    run_script(interop_python, folder)
    done = convert("huggingface", "run", folder / "model", folder / "run")
    assert (done.unused, done.newly_initialized) == (["bert.embeddings.position_ids"], [])
    return folder


def test_the_figures_in_the_readme(folder, monkeypatch, capsys):
    (block,) = (x.text for x in blocks("README.md") if x.language == "python" and '"minilm"' in x.text)
    (folder / "minilm").symlink_to("run")
    monkeypatch.chdir(folder)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == block.rpartition("# ")[2].strip()


def test_ids_states_and_embeddings_are_transformers(folder):
    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    tokenizer = open_tokenizer(folder / "run" / "vocab.txt")
    special = tokenizer.vocabulary.special_ids
    ids = [[special.start, *row, special.separator] for row in tokenizer(tf.constant(texts)).to_list()]
    assert ids == json.loads((folder / "theirs.json").read_text())
    theirs = np.load(folder / "theirs.npz")
    inputs = tf.ragged.constant(ids[:COUNT]).to_tensor()
    ours = albert_tf.load(folder / "run")({"input_word_ids": inputs, "input_mask": theirs["mask"]})
    there = theirs["mask"] == 1
    np.testing.assert_allclose(ours["sequence_output"][there], theirs["states"][there], atol=1e-5)
    embed = albert_tf.pipeline(folder / "run", "feature-extraction", normalize=True)
    np.testing.assert_allclose(embed(texts[:COUNT]), theirs["embeddings"], atol=1e-5)


def test_back_in_transformers_they_answer_the_same(folder, interop_python):
    convert("run", "huggingface", folder / "run", folder / "back")
    run_script(interop_python, folder)
    before, after = (np.load(folder / f"{name}.npz") for name in ("theirs", "back"))
    for name in before:
        np.testing.assert_allclose(after[name], before[name], atol=1e-6)


def spearman(first, second, scores):
    """The correlation of scores with the cosine of embeddings [n, H]."""
    first, second = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (first, second))
    return spearmanr((first * second).sum(axis=1), scores).statistic


def test_similarity_of_sentences_by_the_pipeline_and_by_the_exported_model(folder, pairs):
    *texts, scores = pairs
    embed = albert_tf.pipeline(folder / "run", "feature-extraction")
    ours = [np.array(embed(side)) for side in texts]
    assert spearman(*ours, scores) == pytest.approx(STS_B, abs=5e-4)
    export(folder / "run", folder / "hub", check=False)
    model = tf.saved_model.load(str(folder / "hub" / "serving" / "1"))
    serve = model.signatures["embed"]
    theirs = [
        np.concatenate([serve(tf.constant(side[n : n + 50]))["embedding"] for n in range(0, 1500, 50)])
        for side in texts
    ]
    np.testing.assert_allclose(theirs, ours, atol=1e-4)
    text = tf.constant(texts[0][:4])
    inputs = hub.KerasLayer(str(folder / "hub" / "preprocessor"))(text)
    states = hub.KerasLayer(str(folder / "hub" / "encoder"))(inputs)["sequence_output"]
    mask = tf.cast(inputs["input_mask"], tf.float32)[..., tf.newaxis]
    mean = tf.reduce_sum(states * mask, axis=1) / tf.reduce_sum(mask, axis=1)
    np.testing.assert_allclose(mean, ours[0][:4], atol=1e-4)
    assert spearman(*theirs, scores) == pytest.approx(STS_B, abs=5e-4)


def test_onnx_runtime_has_the_same_states(folder):
    export_to(folder / "run", folder / "onnx", "onnx")
    theirs, ids = np.load(folder / "theirs.npz"), json.loads((folder / "theirs.json").read_text())[:COUNT]
    mask = theirs["mask"].astype(np.int32)
    word_ids = np.zeros_like(mask)
    word_ids[mask == 1] = np.concatenate(ids)
    session = onnxruntime.InferenceSession(str(folder / "onnx" / "model.onnx"))
    inputs = {"input_word_ids": word_ids, "input_mask": mask, "input_type_ids": np.zeros_like(mask)}
    (states,) = session.run(["sequence_output"], inputs)
    np.testing.assert_allclose(states[mask == 1], theirs["states"][mask == 1], atol=1e-4)


def test_an_albert_of_a_quarter_of_the_parameters_begins_with_them(folder):
    """The words' error is no less than that of the best approximation of their rank, by NumPy's SVD."""
    done = compress(folder / "run", folder / "albert")
    assert done.parameters == (22_713_216, 5_944_704)
    table = albert_tf.load(folder / "run").embeddings.word_embeddings.numpy().astype(np.float64)
    singular = np.linalg.svd(table - table.mean(axis=1, keepdims=True), compute_uv=False)
    best = np.linalg.norm(singular[127:]) / np.linalg.norm(singular)
    assert best < done.errors["word_embeddings"] < 1.1 * best
    assert done.errors["position_embeddings"] < 0.2
