import json

import pytest

from albert_tf.tasks.datasets.squad import read_squad
from albert_tf.utils.errors import InputError


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "squad.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def dataset(*questions, context="The sea is blue."):
    return {"data": [{"title": "x", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def question(number="q1", answers=(("blue", 11),), **fields):
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": number, "question": "Which colour?", "answers": listed, **fields}


@pytest.mark.parametrize(
    ("name", "count", "impossible"),
    [
        ("dev-v1.1.json", 10570, 0),
        ("dev-v2.0.rebuilt.json", 11873, 5945),
        ("train-v1.1.head.json", 4370, 0),
        ("xquad.en.json", 1190, 0),
    ],
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


def test_three_questions(shared):
    records = read_squad(shared / "data/squad/dev-v2.0.rebuilt.json", has_impossible=True, needs_answers=True)
    by_id = {record.id: record for record in records}
    first = by_id["56ddde6b9a695914005b9628"]
    assert first.question == "In what country is Normandy located?"
    assert first.context.startswith("The Normans (Norman: Nourmands; French: Normands;")
    assert [tuple(answer) for answer in first.answers] == [("France", 159)] * 4
    assert by_id["56ddde6b9a695914005b9629"].answers[1] == ("in the 10th and 11th centuries", 87)
    impossible = by_id["5ad39d53604f3c001a3fe8d1"]
    assert (impossible.answers, impossible.is_impossible) == ((), True)


def test_files_without_answers(file):
    unanswered = {"id": "q1", "question": "Which colour?"}
    record = read_squad(file(dataset(unanswered)), has_impossible=True, needs_answers=False)[0]
    assert (record.id, record.answers, record.is_impossible) == ("q1", (), False)
    with pytest.raises(InputError, match="question q1 has no answers"):
        read_squad(file(dataset(unanswered)), has_impossible=False, needs_answers=True)


@pytest.mark.parametrize(
    ("has_impossible", "content", "message"),
    [
        (False, "", "squad.json is empty"),
        (False, "{", "squad.json: not JSON"),
        (False, {"data": []}, "squad.json holds no questions"),
        (False, {"rows": []}, "squad.json: no 'data' among 'rows'"),
        (False, {"data": [3]}, "squad.json: article 0: not a JSON object but 3"),
        (False, {"data": [{"paragraphs": [{"qas": []}]}]}, "article 0: no 'context' among 'qas'"),
        (False, dataset(question(), question()), "question q1: another question has the same id"),
        (False, dataset(question(answers=[("blue", 12)])), "at character 12 .* 'lue.' and not .* 'blue'"),
        (False, dataset(question(answers=[("", 3)])), "question q1: at character 3"),
        (False, dataset(question(answers=[(".", -1)])), "question q1: at character -1"),
        (False, dataset({**question(), "answers": [7]}), "question q1: not a JSON object but 7"),
        (False, dataset({**question(), "answers": [{"text": "blue"}]}), "no 'answer_start' among 'text'"),
        (False, dataset(question(answers=(), is_impossible=True)), "q1 is impossible.*--task squad-v2.0"),
        (True, dataset(question()), "no question says whether it `is_impossible`: --task squad-v1.1"),
        (True, dataset(question(is_impossible="no")), "'is_impossible' is 'no' and must be a bool"),
    ],
)
def test_bad_files(file, has_impossible, content, message):
    with pytest.raises(InputError, match=message):
        read_squad(file(content), has_impossible, needs_answers=True)
