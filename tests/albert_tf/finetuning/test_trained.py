"""Fine-tuned runs that are saved and asked, and runs that cannot answer."""

import json
import shutil

import pytest

from albert_tf.finetuning.task_table import TASKS, task_entries
from albert_tf.finetuning.trained import columns_of, read_trained, run_task
from albert_tf.recipes import QuestionSettings
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.utils.errors import InputError
from tests.tiny import DOCUMENTS

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
    records = TASKS["classification"].format.read(table, True, COLUMNS)
    return saved("classification", records, 32, COLUMNS)


def test_what_task_json_says(run):
    assert columns_of(json.loads((run / "task.json").read_text())) == COLUMNS
    assert columns_of({"task": "cola"}) is None
    questions = QuestionSettings(n_best=5)
    assert task_entries("squad-v2.0", [], 384, questions=questions) == {
        "model": "span_labeler", "answerability": True, "task": "squad-v2.0", "seq_length": 384,
        "best_by": "eval_f1", "doc_stride": 128, "max_query_length": 64, "max_answer_length": 30, "n_best": 5,
    }  # fmt: skip


def test_another_vocabulary_than_the_run_s(run, shared):
    shutil.copyfile(shared / "data/vocabulary/30k-clean.model", run / "spiece.model")
    with pytest.raises(InputError, match="vocabulary"):
        read_trained(run)
    (run / "spiece.model").unlink()
    with pytest.raises(FileNotFoundError, match="vocabulary"):
        read_trained(run)


def test_tasks_of_runs(run):
    for asked, message in (("ax", "classification and not for ax"), ("axe", "task='axe' is none of cola")):
        with pytest.raises(InputError, match=message):
            read_trained(run, asked=asked)
    with pytest.raises(InputError, match="pretrainer"):
        run_task({"model": "pretrainer", "sentence_objective": "sop"})
    assert run_task({"task": "mnli"}, "ax") == "ax"
    assert run_task({"task": "mnli"}) == run_task({"task": "mnli"}, "mnli") == "mnli"
