import json

import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.dataset_files import read_squad


def dataset(*questions, context="The sea is blue."):
    return {"data": [{"title": "x", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def question(number="q1", answers=(("blue", 11),), **fields):
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": number, "question": "Which colour?", "answers": listed, **fields}


@pytest.mark.parametrize(
    ("name", "count", "impossible"), [("dev-v1.1.json", 10570, 0), ("dev-v2.0.rebuilt.json", 11873, 5945)]
)
def test_questions_of_every_file(shared, name, count, impossible):
    records = read_squad(shared / "data/squad" / name, "v2" in name, needs_answers=True)
    assert len(records) == count
    assert sum(record.is_impossible for record in records) == impossible
    assert all(bool(record.answers) != record.is_impossible for record in records)
    articles = json.loads((shared / "data/squad" / name).read_text())["data"]
    for place, paragraph in (
        (0, articles[0]["paragraphs"][0]),
        (len(articles[0]["paragraphs"][0]["qas"]), articles[0]["paragraphs"][1]),
        (count - len(articles[-1]["paragraphs"][-1]["qas"]), articles[-1]["paragraphs"][-1]),
    ):
        asked = paragraph["qas"][0]
        assert records[place][1:4] == (asked["id"], asked["question"], paragraph["context"])
        assert [answer._asdict() for answer in records[place].answers] == [
            {"text": answer["text"], "start": answer["answer_start"]} for answer in asked["answers"]
        ]


def test_what_cannot_be_written_again_is_named(file):
    path = file(dataset(question(mine=10**50)), "data.json")
    with pytest.raises(InputError, match=r"data\.json: \['data'\].*\['qas'\]\[0\]\['mine'\]: 1000"):
        read_squad(path, has_impossible=False, needs_answers=False)


def test_files_without_answers(file):
    unanswered = {"id": "q1", "question": "Which colour?"}
    record = read_squad(file(dataset(unanswered)), has_impossible=True, needs_answers=False)[0]
    assert (record.id, record.answers, record.is_impossible) == ("q1", (), False)
    with pytest.raises(InputError, match="q1"):
        read_squad(file(dataset(unanswered)), has_impossible=False, needs_answers=True)


@pytest.mark.parametrize(
    ("has_impossible", "content", "value"),
    [
        (False, {"data": []}, "no questions"),
        (False, {"rows": []}, "'data'"),
        (False, {"data": [3]}, "article 0.*'paragraphs'"),
        (False, {"data": [{"paragraphs": [{"qas": []}]}]}, "article 0.*'context'"),
        (False, dataset(question(), question()), "'q1'"),
        (False, dataset(question(answers=[("blue", 12)])), "q1.*'blue'.* 12"),
        (False, dataset(question(answers=[(".", -1)])), "q1.* -1"),
        (False, dataset({**question(), "answers": [{"text": "blue"}]}), "q1.*'answer_start'"),
        (False, dataset(question(answers=(), is_impossible=True)), r"q1.*squad-v2\.0"),
        (True, dataset(question()), r"squad-v1\.1"),
        (True, dataset(question(is_impossible="no")), "q1.*'is_impossible'"),
    ],
)
def test_bad_files(file, has_impossible, content, value):
    with pytest.raises(InputError, match=f"data.csv.*{value}"):
        read_squad(file(content), has_impossible, needs_answers=True)


def test_answers_that_are_not_needed_are_ignored(file):
    wrong = [
        question("q0", answers=[("blue", 12)]),
        {**question("q1"), "answers": {"text": ["blue"], "answer_start": [11]}},
        question("q2", answers=(), is_impossible=True),
        question("q3", is_impossible="no"),
    ]
    records = read_squad(file(dataset(*wrong)), has_impossible=False, needs_answers=False)
    found = [(record.id, record.answers, record.is_impossible) for record in records]
    assert found == [(f"q{n}", (), False) for n in range(4)]
