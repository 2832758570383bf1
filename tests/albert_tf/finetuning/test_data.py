"""What is trained on and what is held out of it."""

import collections
import json

import numpy as np
import pytest

from albert_tf.finetuning.data import Sets, data_record, described, dev_sets, read_sets, split_off
from albert_tf.finetuning.settings import Finetuning
from albert_tf.finetuning.task_table import TASKS
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.examples.records import (
    Answer,
    ChoiceRecord,
    QuestionRecord,
    TaggedRecord,
    TextRecord,
    label_of,
)
from albert_tf.tasks.examples.rows import TokenRows
from albert_tf.utils.errors import InputError
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


def label_records(counts):
    """So many of each label, in no order."""
    labels = np.repeat(list(counts), list(counts.values()))
    np.random.default_rng(5).shuffle(labels)
    return [TextRecord("own.csv", n + 2, str(n), f"text {n}", None, str(x)) for n, x in enumerate(labels)]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"a": 50, "b": 30, "c": 20}, {"a": 5, "b": 3, "c": 2}),
        ({"a": 480, "b": 20}, {"a": 48, "b": 2}),
        ({"a": 47, "b": 26, "c": 27}, {"a": 5, "b": 2, "c": 3}),  # 4.7, 2.6 and 2.7 are ten
        ({"a": 95, "b": 5}, {"a": 9, "b": 1}),  # 9.5 and 0.5: the rare one, which else is missing
        ({"a": 97, "b": 2, "c": 1}, {"a": 10}),  # 9.7, 0.2 and 0.1
        ({"a": 94, **{f"b{n}": 1 for n in range(6)}}, {"a": 10}),  # a label that is there once is learned
    ],
)
def test_each_label_has_its_share_of_what_is_held_out(counts, expected):
    records = label_records(counts)
    train, dev = split_off(records, 0.1, label_of)
    assert collections.Counter(record.label for record in dev) == expected
    assert sorted([*train, *dev], key=records.index) == records
    assert split_off(records, 0.1, label_of) == (train, dev)


def test_a_table_is_held_out_by_label_and_others_are_not(tmp_path):
    rows = [{"text": f"text {n}", "kind": "1.0" if n % 10 == 0 else "0"} for n in range(200)]
    rows[0]["kind"] = "1"
    file = own_file(tmp_path, rows)
    sets = read_sets(settings_for(file))
    assert sum(label_of(record) == "1" for record in sets.dev["dev"]) == 2
    scored = read_sets(settings_for(file, task="regression"))
    assert scored.train == split_off(TASKS["regression"].read(file, True, COLUMNS), 0.1)[0]


def test_a_label_that_nothing_is_evaluated_on_is_told(tmp_path):
    rows = [{"text": f"text {n}", "kind": "verse" if n < 2 else "ab"[n % 2]} for n in range(100)]
    sets = read_sets(settings_for(own_file(tmp_path, rows)))
    assert described(TASKS["classification"], sets, ["a", "b", "verse"]) == [
        "labels: a (44), b (44), verse (2)",
        "evaluated on no example of the label verse",
    ]
    rows += [{"text": "text", "kind": f"kind {n:02}"} for n in range(30)]
    sets = read_sets(settings_for(own_file(tmp_path, rows)))
    (_, line) = described(TASKS["classification"], sets, sorted({row["kind"] for row in rows}))
    assert line.count("kind ") == 10  # two of those that are there once complete the tenth
    assert line.endswith(" and 18 more")


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
    assert described(TASKS["classification"], Sets(rows, {"dev": rows}), labels) == [
        "labels: article (3), advert (12)",
        "2 of 15 rows have an empty text",
    ]
    texts = [f"text {n % 40:02} {'x' * 40}" for n in range(80)]
    many = [record("a", text) for text in [*texts, texts[7]]]
    (line,) = described(TASKS["classification"], Sets(many, {"dev": many}), sorted(set(texts)))
    assert line.startswith(f"labels: text 07 {'x' * 21}… (3), text 00 ") and line.endswith(" and 30 more")
    assert len(line) < 400
    pairs = [record("a", "1", "b"), record("a", "4.5", "\n")]
    assert described(TASKS["classification"], Sets(pairs, {"dev": pairs}), None) == [
        "scores: 1 to 4.5, 2.75 on average",
        "1 of 2 rows have an empty text",
    ]
    choices = [ChoiceRecord("a:1", "1", "", "c", "q", ("a", "b"), 0)]
    assert described(TASKS["classification"], Sets(choices, {"dev": choices}), None) == []


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
    dev = {"dev": text_records(3)}
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


SAME = [
    text_records(2),
    [record._replace(file="moved.csv", line=7) for record in text_records(2)],
]
OTHER = [
    text_records(2)[::-1],
    [record._replace(text="text") for record in text_records(2)],
    [record._replace(text_pair="pair") for record in text_records(2)],
    [record._replace(label="c") for record in text_records(2)],
    [TaggedRecord("own.csv", 2, ("text", "0"), ("O", "O")), TaggedRecord("own.csv", 5, ("text",), None)],
    [ChoiceRecord("own.csv:2", "0", "", "text", "Who?", ("a", "b"), label) for label in (0, 1)],
    [QuestionRecord("own.csv:2", "0", "Who?", "text", (Answer("text", start),), False) for start in (0, 1)],
    [QuestionRecord("own.csv:2", "0", "Who?", "text", (Answer("text", 0),), False)] * 2,
]


def test_what_is_evaluated_on_is_told_by_what_it_says_not_by_where_it_is():
    same, other = (
        [data_record(rows(), {"dev": records})["eval_sha256"]["dev"] for records in found]
        for found in (SAME, OTHER)
    )
    assert len(set(same)) == 1
    assert len({*same, *other}) == 1 + len(OTHER)
