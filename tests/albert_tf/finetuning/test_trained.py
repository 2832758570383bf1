"""Fine-tuned runs that are saved and asked, and runs that cannot answer."""

import json
import shutil

import pytest

import albert_tf
from albert_tf import cli
from albert_tf.errors import InputError
from albert_tf.finetuning.finetuned_model import load_finetuned, run_task
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.tasks.columns import Columns
from tests.albert_tf.commands import mistake
from tests.tiny import DOCUMENTS, TINY

SENTENCES = [sentence for document in DOCUMENTS for sentence in document]
COLUMNS = Columns("text", label="kind")


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "own.jsonl"
    rows = [{"text": text, "kind": "ab"[n % 2]} for n, text in enumerate(SENTENCES)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def run(saved, table):
    records = TASK_SPECS["classification"].format.read(table, True, COLUMNS)
    return saved("classification", records, 32, COLUMNS)


def test_another_vocabulary_than_the_run_s(run, shared):
    shutil.copyfile(shared / "data/vocabulary/30k-clean.model", run / "spiece.model")
    with pytest.raises(InputError, match="vocabulary"):
        load_finetuned(run)
    (run / "spiece.model").unlink()
    with pytest.raises(FileNotFoundError, match="vocabulary"):
        load_finetuned(run)


def test_tasks_of_runs(run):
    for asked, message in (("ax", "classification and not for ax"), ("axe", "task='axe' is none of cola")):
        with pytest.raises(InputError, match=message):
            load_finetuned(run, asked=asked)
    for model in ({"model": "pretrainer", "sentence_objective": "sop"}, {"model": "encoder"}):
        with pytest.raises(InputError, match=r"^here/run is pre-trained only: .*--init_from here/run "):
            run_task(model, "here/run")
    with pytest.raises(
        InputError, match=r"^here/run/task\.json: task='mnli' does not fit model='span_labeler'"
    ):
        run_task({"task": "mnli", "model": "span_labeler"}, "here/run")
    assert run_task({"task": "mnli"}, "run", "ax") == "ax"
    assert run_task({"task": "mnli"}, "run") == run_task({"task": "mnli"}, "run", "mnli") == "mnli"


def test_a_classifier_from_elsewhere(tiny_vocabulary, table, tmp_path, capsys):
    """As converted from Hugging Face: task.json has no task. It answers files as `pipeline` does texts."""
    labels, run = ["b", "a"], tmp_path / "run"
    model = albert_tf.AlbertClassifier(TINY, num_labels=2)
    albert_tf.save(model, run, tiny_vocabulary, task={"labels": labels})
    words, columns = ["--run", str(run)], ["--text", "text", "--label", "kind"]
    output = tmp_path / "predicted.jsonl"
    assert cli.run(["predict", *words, *columns, "--input", str(table), "--output", str(output)]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    answers = albert_tf.pipeline(run)(SENTENCES)
    assert [row["prediction"] for row in rows] == [answer["label"] for answer in answers]
    assert [row["score"] for row in rows] == pytest.approx([answer["score"] for answer in answers], abs=1e-5)
    capsys.readouterr()
    assert cli.run(["evaluate", *words, *columns, "--eval", str(table)]) == 0
    right = sum(answer["label"] == row["kind"] for answer, row in zip(answers, rows, strict=True))
    assert json.loads(capsys.readouterr().out)["accuracy"] == pytest.approx(right / len(rows), abs=1e-6)
    assert "--text" in mistake(capsys, "evaluate", *words, "--eval", table)
    assert load_finetuned(run).entries["seq_length"] == TINY.max_position_embeddings
    assert run_task({"model": "span_labeler", "answerability": True}, run) == "squad-v2.0"
    assert run_task({"model": "classifier", "num_labels": 1}, run) == "regression"
