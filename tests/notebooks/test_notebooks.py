"""The notebooks as they are stored, and executed with small settings."""

import base64
import io
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from matplotlib.image import imread

from albert_tf import cli
from notebooks.execute import execute

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"

# Of each notebook its pictures, and small settings; {folder} has what `make demo` leaves.
PICTURES = {
    "text_to_batch": 4,
    "inside_the_encoder": 3,
    "layer_similarity": 3,
    "pretrain_small": 2,
    "finetune_your_own_csv": 3,
    "question_answering": 3,
    "export_and_serve": 1,
    "family": 2,
    "train_on_tpu": 2,
}
TEXTS = (
    'TEXT, HELD_OUT = "{folder}/train.txt", "{folder}/held_out.txt"\nVOCABULARY = "{folder}/spiece.model"\n'
)
SETTINGS = {
    "text_to_batch": TEXTS + "BATCHES = 20",
    "inside_the_encoder": "",
    "layer_similarity": TEXTS + 'RUN = "{folder}/run"\nNUM_LAYERS, STEPS = 3, 6',
    "pretrain_small": TEXTS + "VOCAB_SIZE, STEPS = 1000, 60",
    "finetune_your_own_csv": 'RUN = "{folder}/run"\nROWS, EPOCHS = 90, 8',
    "question_answering": TEXTS + "PARAGRAPHS, EPOCHS = 24, 1",
    "export_and_serve": 'RUN = "{folder}/run"',
    "family": TEXTS + "VOCAB_SIZE, STEPS = 700, 4",
    "train_on_tpu": TEXTS + "STEPS, EPOCHS = 100, 1",
}

# What must not be in a notebook that is read elsewhere: timings, and names of a machine.
TRACES = ("iopub", "ETA", "ms/step", "/home/", "/root/", "/tmp/", "/usr/", "/work/", "WARNING", "Warning:")


def stored(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def printed(notebook):
    return "".join(output.text for output in outputs(notebook) if output.output_type == "stream")


def pictures(notebook):
    """The pictures as arrays [height, width, 4] of 0 to 1."""
    found = [
        output.data["image/png"] for output in outputs(notebook) if "image/png" in output.get("data", {})
    ]
    return [imread(io.BytesIO(base64.b64decode(content))) for content in found]


def numbers(notebook, pattern):
    """What the groups of a pattern match in the output, as numbers; a line each."""
    found = re.findall(pattern, printed(notebook).replace(",", ""), flags=re.M)
    assert found, pattern
    return np.array([[match] if isinstance(match, str) else match for match in found], float)


def check_text_to_batch(notebook):
    (masked,) = numbers(notebook, r"^tokens that are to be found: ([\d.]+)%")
    (swapped,) = numbers(notebook, r"^pairs that are swapped: +([\d.]+)%")
    kinds = numbers(notebook, r"^(?:\[MASK\]|another piece|kept): +([\d.]+)%")[:, 0]
    assert abs(masked - 15) < 1 and abs(swapped - 50) < 8
    np.testing.assert_allclose(kinds, [80, 10, 10], atol=4)


def check_inside_the_encoder(notebook):
    """Counts of google-research/albert, exact; the paper rounds them."""
    sizes = "11,683,584 17,683,968 58,724,864 222,595,584 109,081,344 334,607,360"
    sharing = (
        "9,681,408 15,687,936 31,114,752 61,645,056 63,647,232 67,651,584 83,078,400 35,684,352 37,686,528 "
        "41,690,880 57,117,696 87,648,000 89,650,176 93,654,528"
    )
    groups = "18,771,456 25,859,328 32,947,200 47,122,944"
    words = printed(notebook).split()
    assert {*sizes.split(), *sharing.split(), *groups.split(), "495,518,208"} <= set(words)
    assert words.count("17,683,968") == 8  # of the table, of six depths, of a width
    assert "bert_large / albert_large_v2: 18.92" in printed(notebook)
    assert "11,683,584 parameters; by arithmetic 11,683,584\n" in printed(notebook)


def check_layer_similarity(notebook):
    layers = numbers(notebook, r"^ +\d+ +([\d.]+) +(-?[\d.]+) +([\d.]+) +(-?[\d.]+)$")  # shared, unshared
    assert (layers[:, ::2] > 0).all() and (abs(layers[:, 1::2]) <= 1).all()
    (shared,), (unshared,) = numbers(notebook, r"^(?:un)?shared +(\d+) parameters")
    attention, feed_forward = 4 * (128 * 128 + 128), 2 * 128 * 512 + 512 + 128
    assert unshared - shared == (len(layers) - 1) * (attention + feed_forward + 4 * 128)


def check_pretrain_small(notebook):
    """The loss falls; each sentence has answers before and after."""
    ((first, last),) = numbers(notebook, r"masked tokens: ([\d.]+) nats at the first evaluation ([\d.]+)")
    assert last < first
    assert len(re.findall(r"^  (?:before|after) +\S+ [\d.]+%", printed(notebook), flags=re.M)) == 8


def check_finetune_your_own_csv(notebook):
    accuracies = numbers(notebook, r"^(?:fine-tuned|TF-IDF) +accuracy ([\d.]+) ± [\d.]+ of")
    assert len(accuracies) == 2 and (accuracies > 0.3).all()  # of four labels
    assert "the run answers as the model in memory: True" in printed(notebook)


def check_question_answering(notebook):
    ((exact, f1),) = numbers(notebook, r"^exact match ([\d.]+) F1 ([\d.]+)$")
    assert 0 <= exact <= f1 <= 100
    assert len(re.findall(r"^ +\S.*\? .*\(\d+%\)$", printed(notebook), flags=re.M)) == 4


def check_export_and_serve(notebook):
    assert printed(notebook).count("agree to 1e-5: True\n") == 2
    (whole, unmoved), (half, moved) = numbers(
        notebook, r"^b?float\d+ +([\d.]+) MB of weights vectors moved by ([\d.]+)%"
    )
    assert 0.45 < half / whole < 0.6
    assert unmoved == 0 < moved < 2
    assert '{"signature_name": "fill_mask", "inputs": {"text": ["The function' in printed(notebook)


def check_family(notebook):
    """The published encoders' parameters; Hugging Face counts a pooler of RoBERTa, too."""
    published = "11,683,584 +109,482,240 +124,055,040 +66,362,880"
    assert re.search(f"^parameters +{published}$", printed(notebook), flags=re.M)
    small = numbers(notebook, r"^(?:ALBERT|BERT|RoBERTa|DistilBERT) +(\d{6,}) +[\d.]+ +-?[\d.]+")[:, 0]
    assert len(small) == 4 and small[0] == small.min()


def check_train_on_tpu(notebook):
    ((first, last),) = numbers(notebook, r"^masked tokens: from ([\d.]+) nats to ([\d.]+)")
    assert last < first
    assert "input_word_ids         int32    (32, 64)\n" in printed(notebook)


CHECKS = {name: globals()[f"check_{name}"] for name in PICTURES}


def check(name, notebook):
    """The pictures are there, and none is blank; what is printed is right."""
    found = pictures(notebook)
    assert len(found) == PICTURES[name]
    assert all(picture[..., :3].var() > 1e-3 for picture in found)
    CHECKS[name](notebook)


@pytest.fixture(scope="session")
def made_by_demo(made_once):
    """A text, a vocabulary and a run such as `make demo` makes them, smaller and of fewer updates."""
    from pydoc_data.topics import topics

    def write(folder):
        folder.mkdir()
        pages = [" ".join(page.split()).replace(". ", ".\n") for _, page in sorted(topics.items())]
        (folder / "train.txt").write_text("\n\n".join(pages[8:]), "utf-8")
        (folder / "held_out.txt").write_text("\n\n".join(pages[:8]), "utf-8")
        text, vocabulary = f"{folder}/train.txt", f"{folder}/spiece.model"
        files = ["--train", text, "--eval", f"{folder}/held_out.txt", "--vocabulary", vocabulary]
        steps = ["--recipe", "one_machine", "--steps", "40", "--output", f"{folder}/run"]
        for command in (
            ["vocab", "--input", text, "--vocab_size", "1000", "--output", vocabulary],
            ["pretrain", *files, *steps],
        ):
            assert cli.run(command) == 0

    return made_once("demo", write)


def test_all_are_listed():
    names = {path.stem for path in FOLDER.glob("*.ipynb")}
    table = (FOLDER / "README.md").read_text("utf-8")
    assert names == set(re.findall(r"^\| \[(\w+)\]\(\1\.ipynb\)", table, flags=re.M))
    assert names - {"sentiment_with_hub"} == PICTURES.keys() == SETTINGS.keys() == CHECKS.keys()
    assert sum(path.stat().st_size for path in FOLDER.glob("*.ipynb")) < 1.6e6


@pytest.mark.parametrize("name", PICTURES)
def test_stored_as_executed_from_top_to_bottom(name):
    notebook = stored(name)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [x for x in outputs(notebook) if x.output_type == "error" or x.get("name") == "stderr"]
    said = printed(notebook) + "".join(
        str(x.get("data", {}).get("text/plain", "")) for x in outputs(notebook)
    )
    assert not [trace for trace in TRACES if trace in said]
    check(name, notebook)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_executes_with_small_settings(name, made_by_demo, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # of what a notebook writes
    notebook = stored(name)
    (cell,) = (cell for cell in notebook.cells if "settings" in cell.metadata.get("tags", []))
    small = SETTINGS[name].format(folder=made_by_demo)
    check(name, execute(notebook, FOLDER, f"{cell.source}\n{small}"))
