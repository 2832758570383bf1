import json
from collections import Counter
from pathlib import Path

import pytest

from albert_tf.tasks.datasets.choices import read_choices, read_race
from albert_tf.utils.errors import InputError


@pytest.mark.parametrize(
    ("split", "group", "passages", "labels"),
    [
        ("train", "middle", 300, (241, 320, 333, 292)),
        ("train", "high", 300, (213, 246, 277, 267)),
        ("dev", "middle", 100, (84, 104, 105, 110)),
        ("dev", "high", 100, (65, 94, 94, 96)),
        ("test", "middle", 100, (87, 113, 105, 100)),
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


def test_three_questions_by_value(shared):
    by_id = {record.id: record for record in read_race(shared / "data/race/dev")}
    witch = by_id["high11938-0"]
    assert witch.question == "A female witch was often found to be   _"
    assert witch.options == ("a young lady", "a lucky woman", "an ugly woman", "a blind girl")
    assert witch.label == 2
    assert witch.context.startswith("Witchcraft was not made a capital offence in Britain until 1563")
    assert by_id["high11938-1"].options[1] == "tricky and merciless"
    assert (by_id["high11938-2"].question, by_id["high11938-2"].label) == (
        "Why did people throw Mary into the river?",
        1,
    )


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


def test_passages_without_answers(tmp_path):
    records = read_race(race(tmp_path, answers=None))
    assert [(record.id, record.label) for record in records] == [("middle7-0", None), ("middle7-1", None)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ["A"]}, r"7.txt: 2 questions, 2 lists of options and 1 answers"),
        ({"answers": ["A", "E"]}, r"7.txt: question 1: label 'E' is none of 0 to 3"),
        ({"options": [["a", "b"], ["e", "f", "g"]], "answers": ["A", "A"]}, "3 options where .* has 2"),
        ({"options": [["a"], ["e", "f"]]}, "question 0: a question needs two or more options"),
        ({"options": ["abcd", ["e", "f"]]}, "question 0: a question needs two or more options"),
        ({"article": None}, "7.txt: no 'article' among 'questions'"),
    ],
)
def test_bad_passages(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read_race(race(tmp_path, **changes))


def test_no_passages(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no \.txt files in its folders middle and high"):
        read_race(tmp_path)


def test_json_lines(tmp_path):
    file = tmp_path / "own.jsonl"
    rows = [
        {"context": "Tea.", "question": "What?", "options": ["tea", "soup"], "label": 1},
        {"context": "Tea.", "question": "What?", "options": ["tea", "soup"], "label": "A", "more": 3},
        {"context": "", "question": "", "options": ["", "x"], "label": 0},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    records = read_choices(file, needs_labels=True)
    assert [(record.where.rpartition("/")[2], record.id, record.label) for record in records] == [
        ("own.jsonl:1", "0", 1),
        ("own.jsonl:2", "1", 0),
        ("own.jsonl:3", "2", 0),
    ]
    assert records[0][3:6] == ("Tea.", "What?", ("tea", "soup"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None}, "own.jsonl:1: the question has no 'label'"),
        ({"label": 2}, "own.jsonl:1: label 2 is none of 0 to 1 and none of A to B"),
        ({"label": "tea"}, "own.jsonl:1: label 'tea' is none of 0 to 1"),
        ({"label": ""}, "own.jsonl:1: label '' is none of 0 to 1"),
        ({"label": True}, "own.jsonl:1: label True is none of 0 to 1"),
        ({"options": ["tea", 3]}, "own.jsonl:1: a question needs two or more options, all of them text"),
        ({"options": "tea"}, "own.jsonl:1: 'options' is 'tea' and must be a list"),
        ({"question": 3}, "own.jsonl:1: 'question' is 3 and must be a str"),
    ],
)
def test_bad_lines(tmp_path, changes, message):
    file = tmp_path / "own.jsonl"
    row = {"context": "Tea.", "question": "What?", "options": ["tea", "soup"], "label": 1, **changes}
    file.write_text(json.dumps(row))
    with pytest.raises(InputError, match=message):
        read_choices(file, needs_labels=True)
