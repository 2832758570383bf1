"""Prediction files against their text by hand, and read again by the readers and the official figures."""

import gzip
import json
import time

import numpy as np
import pytest

from albert_tf.tasks.datasets.choices import read_choices, read_race
from albert_tf.tasks.datasets.conll import read_conll
from albert_tf.tasks.examples.predictions import (
    AnswerPrediction,
    ChoicePrediction,
    FoundAnswer,
    LabelPrediction,
    LabelsPrediction,
    ScorePrediction,
    TagPrediction,
)
from albert_tf.tasks.examples.records import Answer, QuestionRecord
from albert_tf.tasks.files.destination import AS_READ, Form, write_predictions
from albert_tf.tasks.files.own import (
    answer_files,
    choice_files,
    passage_files,
    table_files,
    tagged_files,
)
from albert_tf.utils.errors import InputError


def label(name, *scores):
    return LabelPrediction(name, np.array(scores, np.float32))


def choice(*scores):
    return ChoicePrediction(int(np.argmax(scores)), np.array(scores, np.float32))


def answered(text, odds):
    answers = (FoundAnswer(text, 3, 5, -1.0, -0.5, 0.75), FoundAnswer("é", 0, 2, -3.0, -0.5, 0.25))
    return AnswerPrediction(answers, odds)


def test_files_of_squad():
    records = [QuestionRecord("", f"q{n}", "?", "é ab", (Answer("ab", 2),), False) for n in range(2)]
    files = answer_files("", records, AS_READ)([answered("ab", None)] * 2)
    assert set(files) == {"predictions.json", "nbest.json"}
    assert json.loads(files["predictions.json"]) == {"q0": "ab", "q1": "ab"}
    assert json.loads(files["nbest.json"])["q1"][0] == {
        "text": "ab",
        "start": 3,
        "end": 5,
        "start_log_prob": -1.0,
        "end_log_prob": -0.5,
        "probability": 0.75,
    }
    predictions = [answered("ab", -1.5), answered("ab", 2.5)]
    files = answer_files("", records, AS_READ)(predictions)
    assert json.loads(files["null_odds.json"]) == {"q0": -1.5, "q1": 2.5}
    assert json.loads(files["predictions.json"]) == {"q0": "ab", "q1": ""}
    assert "é" in files["nbest.json"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", 'n,text\n1,"a, b"\n2,c\n', 'n,text,prediction,score\n1,"a, b",yes,0.9\n2,c,0.1,0.1\n'),
        ("a.tsv", 'n\ttext\n1\t"a\n2\tc\n', 'n\ttext\tprediction\tscore\n1\t"a\tyes\t0.9\n2\tc\t0.1\t0.1\n'),
        (
            "a.jsonl",
            '{"n": 1, "s": 7}\n{"text": ["é"]}\n',
            '{"n": 1, "s": 7, "prediction": "yes", "score": 0.9}\n'
            '{"text": ["é"], "prediction": 0.1, "score": 0.1}\n',
        ),
    ],
)  # fmt: skip
def test_rows_of_tables(tmp_path, name, content, expected):
    """Of a label and of a score."""
    (tmp_path / name).write_text(content)
    predictions = [label("yes", 0.1, 0.9), ScorePrediction(np.float32(0.1))]
    assert table_files(tmp_path / name, [], AS_READ)(predictions) == {name: expected}


@pytest.mark.parametrize(
    ("output", "expected"),
    [("b.csv", "text,prediction,score\na,x|y,0.9|0.5\nb,,\n"), ("b.jsonl", None)],
)
def test_several_labels(tmp_path, output, expected):
    (tmp_path / "a.csv").write_text("text\na\nb\n")
    predictions = [
        LabelsPrediction(labels, np.array(scores, np.float32))
        for labels, scores in ((("x", "y"), (0.9, 0.5)), ((), ()))
    ]
    form = Form(str(tmp_path / output), True)
    (text,) = table_files(tmp_path / "a.csv", [], form)(predictions).values()
    if expected is not None:
        assert text == expected
    else:
        first, second = map(json.loads, text.splitlines())
        assert first == {"text": "a", "prediction": ["x", "y"], "score": [0.9, 0.5]}
        assert second == {"text": "b", "prediction": [], "score": []}


@pytest.mark.parametrize(
    ("source", "content", "output", "expected"),
    [
        ("a.csv", 'n,text\n1,"a, b"\n', "b.tsv.gz", "n\ttext\tprediction\tscore\n1\ta, b\ty\t0.9\n"),
        ("a.tsv", 'n\ttext\n1\t"a\n', "b.CSV", 'n,text,prediction,score\n1,"""a",y,0.9\n'),
        (
            "a.jsonl",
            '{"text": "é", "x": [1, {"y": "ü"}], "t": true, "z": null, "n": 2.50}\n',
            "b.csv",
            'text,x,t,z,n,prediction,score\né,"[1, {""y"": ""ü""}]",true,,2.5,y,0.9\n',
        ),
    ],
)  # fmt: skip
def test_the_ending_of_the_output_is_the_format(tmp_path, source, content, output, expected):
    (tmp_path / source).write_text(content)
    files = table_files(tmp_path / source, [], Form(str(tmp_path / output), True))([label("y", 0.1, 0.9)])
    assert list(files.values()) == [expected]


@pytest.mark.parametrize(
    ("source", "content", "output", "value"),
    [
        ("a.csv", "text\na\n", "b.txt", "b.txt"),
        ("a.csv", 'text\n"a\nb"\n', "b.tsv", r"'a\nb'"),
        ("a.csv", "text,x,x\na,1,2\n", "b.jsonl", "'x'"),
        ("a.csv", "text,score\na,2\n", "b.csv", "score_column"),
        ("a.jsonl", '{"text": "a"}\n{"prediction": 1}\n', "b.csv", "prediction_column"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_predicted(
    tmp_path, source, content, output, value
):
    (tmp_path / source).write_text(content)
    with pytest.raises(InputError) as error:
        table_files(tmp_path / source, [], Form(str(tmp_path / output), True))
    assert value in str(error.value)


def test_columns_of_other_names(tmp_path):
    (tmp_path / "a.csv").write_text("text,score,prediction\na,2,x\n")
    form = Form(prediction="guess", score="sure")
    files = table_files(tmp_path / "a.csv", [], form)([label("yes", 0.1, 0.9)])
    assert files == {"a.csv": "text,score,prediction,guess,sure\na,2,x,yes,0.9\n"}
    with pytest.raises(InputError, match="'guess'"):
        table_files(tmp_path / "a.csv", [], form._replace(score="guess"))


def test_files_that_are_no_tables_have_neither_such_columns_nor_such_names(tmp_path):
    (tmp_path / "a.conll").write_text("EU B-X\n")
    for form in (Form("b.csv", True), Form("b.tsv.gz", True), Form(score="sure")):
        with pytest.raises(InputError, match=form.file or "score_column"):
            tagged_files(tmp_path / "a.conll", [], form)
    for form in (Form("x.json", True), Form(None, True), Form(prediction="guess")):
        with pytest.raises(InputError, match=r"output|prediction_column"):
            answer_files("", [], form)
    with pytest.raises(InputError, match="output"):
        passage_files(tmp_path, [], Form("x.json", True))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O \n\n\nPeter NNP B-PER",
            "-DOCSTART- -X- O\n\nEU NNP B-ORG B-X 0.5\nrejects VBZ O O 0.25\n\n\nPeter NNP B-PER O 1.0\n",
        ),
        ("New York\tB\nis\tO\n\nit\tO\n", "New York\tB\tB-X\t0.5\nis\tO\tO\t0.25\n\nit\tO\tO\t1.0\n"),
    ],
)
def test_words_of_sentences(tmp_path, content, expected):
    file = tmp_path / "a.conll"
    file.write_text(content)
    predictions = [
        TagPrediction(("B-X", "O"), np.array([0.5, 0.25], np.float32)),
        TagPrediction(("O",), np.array([1], np.float32)),
    ]
    assert [len(record.words) for record in read_conll(file)] == [2, 1]
    assert tagged_files(file, [], AS_READ)(predictions) == {"a.conll": expected}


@pytest.mark.parametrize(
    ("labels", "predicted"), [(("0", "1"), (1, 0)), (('"A"', '"B"'), ("B", "A")), ((None, None), (1, 0))]
)
def test_own_questions(tmp_path, labels, predicted):
    file = tmp_path / "a.jsonl"
    parts = [f', "label": {value}' if value else "" for value in labels]
    lines = [f'{{"context": "c", "question": "q", "options": ["a", "b"]{part}}}\n' for part in parts]
    file.write_text("".join(lines))
    files = choice_files(file, [], AS_READ)([choice(0.25, 0.75), choice(0.75, 0.25)])
    found = [json.loads(line) for line in files["a.jsonl"].splitlines()]
    for line, value, row in zip(lines, predicted, found, strict=True):
        assert row == {**json.loads(line), "prediction": value, "score": 0.75}
    assert len(read_choices(file, needs_labels=False)) == 2


def test_passages_of_race(shared):
    source = shared / "data/race/test"
    records = read_race(source)
    files = passage_files(source, records, AS_READ)([choice(*np.eye(4)[record.label]) for record in records])
    assert len(files) == 200
    for name, text in files.items():
        passage = json.loads(text)
        assert passage["prediction"] == passage["answers"]
        assert passage["score"] == [1.0] * len(passage["questions"])
        assert passage["article"] == json.loads((source / name).read_text("utf-8"))["article"]


def test_a_passage_that_has_such_a_field(tmp_path):
    passage = {"article": "a", "questions": ["q"], "options": [["x", "y"]], "answers": ["A"], "score": 1}
    (tmp_path / "high").mkdir()
    (tmp_path / "high/0.txt").write_text(json.dumps(passage))
    records = read_race(tmp_path)
    with pytest.raises(InputError, match="'score'"):
        passage_files(tmp_path, records, AS_READ)
    files = passage_files(tmp_path, records, Form(score="sure"))([choice(0.25, 0.75)])
    assert json.loads(files["high/0.txt"]) == {**passage, "prediction": ["B"], "sure": [0.75]}


def test_compressed_files_are_the_same_bytes_each_time(tmp_path, monkeypatch):
    for name in ("a.csv.gz", "b.csv.gz"):
        assert write_predictions(tmp_path / name, {"in.csv": "é\n"}) == [tmp_path / name]
        monkeypatch.setattr(time, "time", lambda: 1e9)
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode() == "é\n"
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert write_predictions(tmp_path / "out", {"in.csv.gz": "é\n"}) == [tmp_path / "out/in.csv.gz"]
    assert gzip.decompress((tmp_path / "out/in.csv.gz").read_bytes()).decode() == "é\n"


def test_one_file_or_a_folder(tmp_path):
    for text in ("a\n", "b\n"):
        write_predictions(tmp_path / "out.csv", {"in.csv": text})
        assert (tmp_path / "out.csv").read_text() == text
    write_predictions(tmp_path / "v1.0", {"a": "1", "b/c": "2"})
    assert (tmp_path / "v1.0/b/c").read_text() == "2"
    with pytest.raises(FileExistsError, match=r"v1\.0"):
        write_predictions(tmp_path / "v1.0", {"a": "b\n"})
    with pytest.raises(NotADirectoryError, match=r"out\.csv"):
        write_predictions(tmp_path / "out.csv/out.csv", {"in.csv": "a\n"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "v1.0"]
    write_predictions(tmp_path / "a/new/out.csv", {"in.csv": "a\n"})  # whose folders are made, as others are
    assert (tmp_path / "a/new/out.csv").read_text() == "a\n"


def test_all_files_or_none(tmp_path):
    with pytest.raises(OSError, match="File name too long"):
        write_predictions(tmp_path / "out", {"a": "1", "b" * 300: "2"})
    assert list(tmp_path.iterdir()) == []
