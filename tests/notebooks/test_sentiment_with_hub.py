import re
from pathlib import Path

import nbformat
import pytest

import albert_tf
from hub_export.export import export
from notebooks.execute import execute
from tests.tiny import TINY

PATH = Path(__file__).resolve().parents[2] / "notebooks/sentiment_with_hub.ipynb"


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(PATH, as_version=4)


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def pictures(notebook):
    return [output for output in outputs(notebook) if "image/png" in output.get("data", {})]


def printed(notebook):
    return "".join(output.text for output in outputs(notebook) if output.output_type == "stream")


def accuracies(notebook):
    """The accuracy on the test reviews, frozen and fine-tuned."""
    found = re.findall(r"(frozen|fine-tuned) +loss [\d.]+, accuracy ([\d.]+)", printed(notebook))
    return {title: float(accuracy) for title, accuracy in found}


def test_stored_as_executed_from_top_to_bottom(stored):
    nbformat.validate(stored)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert 'os.environ["TF_USE_LEGACY_KERAS"] = "1"' in code[0].source
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for output in outputs(stored) if output.output_type == "error"]
    assert len(pictures(stored)) == 1
    assert accuracies(stored)["fine-tuned"] > 0.55


def test_stored_without_timings_and_machine(stored):
    text = PATH.read_text(encoding="utf-8")
    for trace in ("iopub", "execution_start", "ETA", "ms/step", "/home/", "/root/", "/tmp/", "/usr/"):
        assert trace not in text, trace
    assert not [output for output in outputs(stored) if output.get("name") == "stderr"]


@pytest.mark.slow
def test_executes_with_small_settings(stored, shared, tiny_vocabulary, tmp_path):
    config = TINY.replace(num_hidden_layers=1)
    albert_tf.save(albert_tf.AlbertEncoder(config), tmp_path / "run", vocabulary=tiny_vocabulary)
    export(tmp_path / "run", tmp_path / "out", seq_length=32, check=False)
    settings = f"""
PREPROCESSOR, ENCODER = "{tmp_path}/out/preprocessor", "{tmp_path}/out/encoder"
REVIEWS = "{shared}/data/imdb"
BATCH_SIZE, BATCHES, FROZEN_EPOCHS, EPOCHS, LEARNING_RATE = 16, 4, 2, 2, 1e-3
"""
    executed = execute(nbformat.from_dict(stored), tmp_path, settings)
    assert len(pictures(executed)) == 1
    assert sorted(accuracies(executed)) == ["fine-tuned", "frozen"]
    assert all(0.2 < accuracy < 0.8 for accuracy in accuracies(executed).values())
    assert "33 trainable parameters" in printed(executed)
    assert printed(executed).count("positive:") == 4
    assert printed(executed).rstrip().endswith("True")
