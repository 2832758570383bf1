import json
from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tasks.dataset_files import QUESTIONS, read_choices, read_race
from albert_tf.tasks.formats import OutputFormat
from albert_tf.tasks.multiple_choice import choice_lengths, question_with_option
from tests.tiny import write_jsonl


@pytest.mark.parametrize(
    ("split", "group", "passages", "labels"),
    [
        ("train", "high", 300, (213, 246, 277, 267)),
        ("dev", "middle", 100, (84, 104, 105, 110)),
        ("test", "high", 100, (72, 90, 92, 85)),
    ],
)
def test_questions_of_every_folder(shared, split, group, passages, labels):
    records = [record for record in read_race(shared / "data/race" / split) if record.group == group]
    assert len({record.id.partition("-")[0] for record in records}) == passages
    counts = Counter(record.label for record in records)
    assert tuple(counts[label] for label in range(4)) == labels
    assert records == read_race(shared / "data/race" / split / group)
    for record in (records[0], records[57], records[-1]):
        passage = json.loads(Path(record.where.partition(": question ")[0]).read_text())
        number = int(record.id.partition("-")[2])
        asked = (passage["questions"][number], tuple(passage["options"][number]))
        assert record[3:] == (passage["article"], *asked, "ABCD".index(passage["answers"][number]))


PASSAGE = {
    "article": "Tea.",
    "questions": ["What?", "Who?"],
    "options": [["a", "b", "c", "d"], ["e", "f", "g", "h"]],
    "answers": ["A", "D"],
}


def race(folder, **changes):
    (folder / "dev/middle").mkdir(parents=True, exist_ok=True)
    value = {name: field for name, field in {**PASSAGE, **changes}.items() if field is not None}
    (folder / "dev/middle/7.txt").write_text(json.dumps(value))
    return folder / "dev"


def test_what_cannot_be_written_again_is_named(tmp_path):
    """Anywhere: passages are written again as a whole, with the predictions."""
    with pytest.raises(InputError, match=r"7\.txt: \['mine'\]"):
        read_race(race(tmp_path, mine="\ud83d"))


def test_passages_without_answers(tmp_path):
    records = read_race(race(tmp_path, answers=None))
    assert [(record.id, record.label) for record in records] == [("middle7-0", None), ("middle7-1", None)]


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"answers": ["A"]}, "1 answers"),
        ({"answers": ["A", "E"]}, "question 1: label 'E'"),
        ({"options": [["a"], ["e", "f"]]}, "question 0"),
        ({"options": ["abcd", ["e", "f"]]}, "question 0"),
        ({"article": None}, "'article'"),
    ],
)
def test_bad_passages(tmp_path, changes, value):
    with pytest.raises(InputError, match=rf"7\.txt.*{value}"):
        read_race(race(tmp_path, **changes))


def test_no_passages(tmp_path):
    with pytest.raises(FileNotFoundError, match="middle and high"):
        read_race(tmp_path)


ROW = {"context": "Tea.", "question": "What?", "options": ["tea", "soup"], "label": 1}


def test_json_lines(tmp_path):
    rows = [
        ROW,
        {**ROW, "label": "A", "more": 3},
        {"context": "", "question": "", "options": ["y", "x"], "label": 0},
        {**ROW, "label": "0"},
        {**ROW, "label": 1.0},
        {**ROW, "label": " B"},
    ]
    file = write_jsonl(tmp_path / "own.jsonl", rows)
    records = read_choices(file)
    assert [(record.where, record.id, record.label) for record in records] == [
        (f"{file}:{n + 1}", str(n), label) for n, label in enumerate((1, 0, 0, 0, 1, 1))
    ]
    assert records[0][3:6] == ("Tea.", "What?", ("tea", "soup"))


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"label": 2}, "label 2"),
        ({"label": "2"}, "label '2'"),
        ({"label": -1}, "label -1"),
        ({"label": 0.5}, r"label 0\.5"),
        ({"label": [0]}, r"label \[0\]"),
        ({"label": "tea"}, "label 'tea'"),
        ({"label": True}, "label True"),
        ({"options": ["tea", 3]}, "options"),
        ({"options": "tea"}, "options"),
        ({"options": ["tea", "milk", ""]}, r"options\[2\]"),
        ({"context": 3}, "'context'"),
    ],
)
def test_bad_lines(tmp_path, changes, value):
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps({**ROW, **changes}))
    with pytest.raises(InputError, match=rf"own\.jsonl:1: .*{value}"):
        read_choices(file)


def test_labels_that_are_not_needed_are_left_out(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps({**ROW, "label": 2}))
    assert [record.label for record in read_choices(file, needs_labels=False)] == [None]


#


def test_options_fill_blanks_or_stand_behind():
    cases = [
        ("The sky is _ .", "blue", "The sky is blue ."),
        ("_", "blue", "blue"),
        ("_ and _ ?", "a", "a and a ?"),
        ("The sky is ____.", "blue", "The sky is blue."),
        ("What is it?", "A kite", "What is it? A kite"),
        ("", "A kite", " A kite"),
        ("É _ ü", "\\1 ñ", "É \\1 ñ ü"),
    ]
    questions, options, expected = zip(*cases, strict=True)
    found = question_with_option(tf.constant(questions), tf.constant(options))
    assert [text.decode() for text in found.numpy()] == list(expected)
    assert question_with_option(tf.constant([], tf.string), tf.constant([], tf.string)).shape == [0]


def test_a_context_gives_way_to_the_question():
    context, question = tf.constant([[4], [40]]), tf.constant([[2, 30], [3, 200]])
    told, kept = choice_lengths(context, question, 40)
    assert (told.numpy().tolist(), kept.numpy().tolist()) == ([[4, 4], [37, 0]], [[2, 30], [3, 40]])
    told, kept = choice_lengths(context, question, 140)
    assert (told.numpy().tolist(), kept.numpy().tolist()) == ([[4, 4], [40, 12]], [[2, 30], [3, 128]])


def test_several_files_of_json_lines_may_lack_a_field(tmp_path):
    row = {"context": "c", "question": "q", "options": ["x", "y"]}
    rows = {"a.json": {**row, "label": 0}, "b.json": row}
    files = [write_jsonl(tmp_path / name, [row]) for name, row in rows.items()]
    output = OutputFormat(str(tmp_path / "o.jsonl"), True)
    write = QUESTIONS.create_writer(files, QUESTIONS.read(files, False), output)
    assert callable(write)
