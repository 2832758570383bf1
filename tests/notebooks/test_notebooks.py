"""The notebooks as they are stored, and executed with small settings."""

import base64
import io
import re
from pathlib import Path

import nbformat
import pytest
from matplotlib.image import imread

from albert_tf import cli
from hub_export.export import export
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
    "sentiment_with_hub": 2,
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
    "sentiment_with_hub": (
        'PREPROCESSOR, ENCODER = "{folder}/hub/preprocessor", "{folder}/hub/encoder"\n'
        'REVIEWS, BATCHES, EPOCHS, PATIENCE = "{shared}/data/imdb", 2, 2, 1'
    ),
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


def check(name, notebook):
    """The pictures are there, and none is blank; where two results are compared they agree."""
    found = pictures(notebook)
    assert len(found) == PICTURES[name]
    assert all(picture[..., :3].var() > 1e-3 for picture in found)
    # A comparison ends its line; texts that are shown may have the word anywhere.
    assert not re.search(": False$", printed(notebook), re.MULTILINE)
    assert "nan" not in printed(notebook).split()


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
        export(f"{folder}/run", f"{folder}/hub", seq_length=64, check=False)

    return made_once("demo", write)


def test_all_are_listed():
    names = {path.stem for path in FOLDER.glob("*.ipynb")}
    table = (FOLDER / "README.md").read_text("utf-8")
    assert names == set(re.findall(r"^\| \[(\w+)\]\(\1\.ipynb\)", table, flags=re.M))
    assert names == PICTURES.keys() == SETTINGS.keys()
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
def test_executes_with_small_settings(name, made_by_demo, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # of what a notebook writes
    notebook = stored(name)
    (cell,) = (cell for cell in notebook.cells if "settings" in cell.metadata.get("tags", []))
    small = SETTINGS[name].format(folder=made_by_demo, shared=shared)
    check(name, execute(notebook, FOLDER, f"{cell.source}\n{small}"))
