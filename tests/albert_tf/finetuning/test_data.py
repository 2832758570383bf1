"""What is trained on and what is held out of it."""

import json

import numpy as np
import pytest

from albert_tf.data.tasks.columns import Columns
from albert_tf.data.tasks.records import ChoiceRecord, QuestionRecord, TextRecord
from albert_tf.data.tasks.rows import TokenRows
from albert_tf.errors import InputError
from albert_tf.finetuning.data import data_record, described, dev_sets, read_sets, split_off
from albert_tf.finetuning.settings import Finetuning
from albert_tf.finetuning.tasks import TASKS
from tests.tiny import TINY

COLUMNS = Columns("text", None, "kind")


def text_records(count):
    return [TextRecord("own.csv", n + 2, str(n), f"text {n}", None, "ab"[n % 2]) for n in range(count)]


@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (10, 1), (14, 1), (16, 2), (1000, 100)])
def test_a_tenth_is_held_out(count, held_out):
    records = text_records(count)
    train, dev = split_off(records, 0.1)
    assert len(dev) == held_out
    assert sorted([*train, *dev], key=records.index) == records
    assert train == [record for record in records if record not in dev]  # in their order
    assert split_off(records, 0.1) == (train, dev)


def test_what_is_held_out_is_spread_over_the_file():
    """A file sorted by label loses some of each."""
    _, dev = split_off(text_records(1000), 0.1)
    places = [int(record.id) for record in dev]
    assert all(40 <= sum(first <= n < first + 500 for n in places) <= 60 for first in (0, 500))


@pytest.mark.parametrize("kind", [ChoiceRecord, QuestionRecord])
def test_questions_on_one_context_stay_together(kind):
    records = []
    for n in range(60):
        context = f"context {n % 20}"  # that of neighbours is another one
        if kind is ChoiceRecord:
            records.append(ChoiceRecord(f"f:{n}", str(n), "", context, "Who?", ("a", "b"), 0))
        else:
            records.append(QuestionRecord(f"f:{n}", str(n), "Who?", context, (), True))
    train, dev = split_off(records, 0.1)
    assert (len(train), len(dev)) == (54, 6)
    assert not {record.context for record in train} & {record.context for record in dev}


def settings_for(file, **changes):
    made = {
        "output": "run", "task": "classification", "train": file, "columns": COLUMNS, "config": TINY,
        "vocabulary": "spiece.model", **changes,
    }  # fmt: skip
    return Finetuning(**made)


def own_file(folder, rows):
    file = folder / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_label_that_is_held_out_alone_is_known(tmp_path):
    rows = [{"text": f"text {n}", "kind": f"kind {n}"} for n in range(20)]
    sets = read_sets(settings_for(own_file(tmp_path, rows)))
    assert (len(sets.train), {name: len(found) for name, found in sets.dev.items()}) == (18, {"dev": 2})
    assert sets.note == f"2 of 20 examples of {tmp_path / 'own.jsonl'}"
    assert {record.label for record in sets.labelled} == {row["kind"] for row in rows}


def test_a_set_of_its_own_is_not_learnt_from(tmp_path):
    file = own_file(tmp_path, [{"text": f"text {n}", "kind": "ab"[n % 2]} for n in range(20)])
    sets = read_sets(settings_for(file, eval=file))
    assert len(sets.train) == len(sets.dev["dev"]) == 20
    assert sets.labelled is sets.train
    assert sets.note == ""


def record(text, label, pair=None):
    return TextRecord("own.csv", 2, "0", text, pair, label)


def test_what_shows_a_wrong_column_at_a_glance():
    labels = ["article", "advert"]
    rows = [record("a", "advert")] * 12 + [
        record(" ", "article"),
        record("", "article"),
        record("b", "article"),
    ]
    assert described(rows, labels) == [
        "labels: article (3), advert (12)",
        "2 of 15 rows have an empty text",
    ]
    texts = [f"text {n % 40:02} {'x' * 40}" for n in range(80)]
    (line,) = described([record("a", text) for text in [*texts, texts[7]]], sorted(set(texts)))
    assert line.startswith(f"labels: text 07 {'x' * 21}… (3), text 00 ") and line.endswith(" and 30 more")
    assert len(line) < 400
    pairs = [record("a", "1", "b"), record("a", "4.5", "\n")]
    assert described(pairs, None) == [
        "scores: 1 to 4.5, 2.75 on average",
        "1 of 2 rows have an empty text",
    ]
    assert described([ChoiceRecord("a:1", "1", "", "c", "q", ("a", "b"), 0)], None) == []


def test_too_little_to_hold_any_out(tmp_path):
    file = own_file(tmp_path, [{"text": "text", "kind": "a"}])
    with pytest.raises(
        InputError, match=r"own\.jsonl: too little to hold any of it out: name other .* --eval"
    ):
        read_sets(settings_for(file))
    rows = [{"context": "c", "question": f"{n}?", "options": ["a", "b"], "label": 0} for n in range(5)]
    one_context = own_file(tmp_path, rows)
    with pytest.raises(InputError, match="too little to hold any of it out"):
        read_sets(settings_for(one_context, task="multiple_choice", columns=None))


def test_what_is_to_be_evaluated_on(tmp_path, shared):
    with pytest.raises(InputError, match=r"is missing: name it by --data with its folder, or --eval, one of"):
        dev_sets(TASKS["rte"])
    with pytest.raises(InputError, match=r"is missing: name it by --eval$"):
        dev_sets(TASKS["tagging"])
    with pytest.raises(InputError, match=r"is missing: name it by --eval$"):
        dev_sets(TASKS["tagging"], folder=tmp_path)
    with pytest.raises(InputError, match=r"is missing: name it by --data with its folder, or --eval, one of"):
        dev_sets(TASKS["rte"], folder=tmp_path, file=tmp_path / "dev.tsv")
    file = shared / "data/glue/RTE/dev.tsv"
    assert dev_sets(TASKS["rte"], folder=file.parent) == dev_sets(TASKS["rte"], file=file)


def rows(**changes):
    arrays = {
        "tokens": np.arange(10, 16, dtype=np.int32),
        "starts": np.array([[0], [4]]),
        "lengths": np.array([[4], [2]], np.int32),
        "features": {"labels": np.array([0, 1], np.int32)},
    }
    return TokenRows(**{**arrays, **changes})


def test_other_data_has_another_record():
    dev = {"dev": [0, 1, 2]}
    there = data_record(rows(), dev)
    assert (there["examples"], there["eval_examples"]) == (2, {"dev": 3})
    assert data_record(rows(), dev) == there
    others = [
        rows(tokens=np.array([10, 11, 12, 13, 14, 16], np.int32)),
        rows(starts=np.array([[0], [3]])),
        rows(lengths=np.array([[3], [2]], np.int32)),
        rows(features={"labels": np.array([1, 1], np.int32)}),
        rows(token_labels=np.arange(6, dtype=np.int32)),
    ]
    digests = {data_record(other, dev)["data_sha256"] for other in others}
    assert len(digests - {there["data_sha256"]}) == 5
