"""Prediction files against their text by hand."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.columns import create_table_writer
from albert_tf.tasks.dataset_files import (
    create_answer_writer,
    create_choice_writer,
    create_passage_writer,
    create_tagged_writer,
    read_choices,
    read_race,
)
from albert_tf.tasks.examples import QuestionRecord
from albert_tf.tasks.formats import SAME_AS_INPUT, OutputFormat, parse_output_format, write_predictions
from albert_tf.tasks.question_answering import AnswerPrediction, FoundAnswer
from albert_tf.tasks.task import Prediction
from tests.tiny import write_jsonl


def of(kind, value, *scores):
    return kind(value, np.array(scores, np.float32))


def test_files_of_squad():
    records = [QuestionRecord("", f"q{n}", "?", "é ab", (), False) for n in range(2)]
    answers = FoundAnswer("ab", 3, 5, -1.0, -0.5, 0.75), FoundAnswer("é", 0, 2, -3.0, -0.5, 0.25)
    files = create_answer_writer("", records, SAME_AS_INPUT)([AnswerPrediction(answers, None)] * 2)
    assert set(files) == {"predictions.json", "nbest.json"}
    assert json.loads(files["predictions.json"]) == {"q0": "ab", "q1": "ab"}
    assert json.loads(files["nbest.json"])["q1"] == [answer._asdict() for answer in answers]
    assert "é" in files["nbest.json"]
    files = create_answer_writer("", records, SAME_AS_INPUT)(
        [AnswerPrediction(answers, odds) for odds in (-1.5, 2.5)]
    )
    assert json.loads(files["null_odds.json"]) == {"q0": -1.5, "q1": 2.5}
    assert json.loads(files["predictions.json"]) == {"q0": "ab", "q1": ""}


LABEL = of(Prediction, "y", 0.1, 0.9)
SETS = [of(Prediction, ("x", "y"), 0.9, 0.5), of(Prediction, ())]


@pytest.mark.parametrize(
    ("source", "content", "output", "predictions", "expected"),
    [
        ("a.csv", 'n,text\n1,"a, b"\n', None, [LABEL], 'n,text,prediction,score\n1,"a, b",y,0.9\n'),
        ("a.tsv", 'text\n"a\nc\n', None, [LABEL, Prediction(*np.float32([0.1, 0.1]))],
         '"text"\t"prediction"\t"score"\n"""a"\ty\t0.9\nc\t0.1\t0.1\n'),
        ("a.jsonl", '{"n": 1}\n{"text": ["é"]}\n', None, SETS,
         '{"n": 1, "prediction": ["x", "y"], "score": [0.9, 0.5]}\n'
         '{"text": ["é"], "prediction": [], "score": []}\n'),
        ("a.csv", "text\na\nb\n", "b.csv", SETS, "text,prediction,score\na,x;y,0.9;0.5\nb,,\n"),
        ("a.csv", 'n,text\n1,"a, b"\n', "b.tsv.gz", [LABEL], "n\ttext\tprediction\tscore\n1\ta, b\ty\t0.9\n"),
        ("a.csv", "text\na\n", "b.csv", [of(Prediction, ("R|D",), 0.9)],
         'text,prediction,score\na,"[""R|D""]",0.9\n'),
        ("a.tsv", 'n\ttext\n1\t"a\n', "b.CSV", [LABEL], 'n,text,prediction,score\n1,"""a",y,0.9\n'),
        ("a.jsonl", '{"x": [1, {"y": "ü"}], "t": true, "z": null, "n": 2.50}\n', "b.csv", [LABEL],
         'x,t,z,n,prediction,score\n"[1, {""y"": ""ü""}]",true,,2.5,y,0.9\n'),
    ],
)  # fmt: skip
def test_rows_of_tables(tmp_path, source, content, output, predictions, expected):
    (tmp_path / source).write_text(content)
    output_format = SAME_AS_INPUT if output is None else OutputFormat(str(tmp_path / output), True)
    assert create_table_writer(tmp_path / source, [], output_format)(predictions) == {source: expected}


@pytest.mark.parametrize(
    ("source", "content", "output", "value"),
    [
        ("a.csv", "text\na\n", "b.txt", "b.txt"),
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
        create_table_writer(tmp_path / source, [], OutputFormat(str(tmp_path / output), True))
    assert value in str(error.value)


def test_columns_of_other_names(tmp_path):
    (tmp_path / "a.csv").write_text("text,score,prediction\na,2,x\n")
    output_format = OutputFormat(prediction="guess", score="sure")
    files = create_table_writer(tmp_path / "a.csv", [], output_format)([LABEL])
    assert files == {"a.csv": "text,score,prediction,guess,sure\na,2,x,y,0.9\n"}
    with pytest.raises(InputError, match="'guess'"):
        create_table_writer(tmp_path / "a.csv", [], output_format._replace(score="guess"))


def test_files_that_are_no_tables_have_neither_such_columns_nor_such_names(tmp_path):
    (tmp_path / "a.conll").write_text("EU B-X\n")
    for output_format in (OutputFormat("b.tsv.gz", True), OutputFormat(score="sure")):
        with pytest.raises(InputError, match=output_format.file or "score_column"):
            create_tagged_writer(tmp_path / "a.conll", [], output_format)
    for output_format in (OutputFormat(None, True), OutputFormat(prediction="guess")):
        with pytest.raises(InputError, match=r"output|prediction_column"):
            create_answer_writer("", [], output_format)
    with pytest.raises(InputError, match="output"):
        create_passage_writer(tmp_path, [], OutputFormat("x.json", True))


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
    (tmp_path / "a.conll").write_text(content)
    predictions = [of(Prediction, ("B-X", "O"), 0.5, 0.25), of(Prediction, ("O",), 1)]
    assert create_tagged_writer(tmp_path / "a.conll", [], SAME_AS_INPUT)(predictions) == {"a.conll": expected}


@pytest.mark.parametrize(("label", "predicted"), [("0", 1), ('"A"', "B"), ("null", 1)])
def test_own_questions(tmp_path, label, predicted):
    line = f'{{"context": "c", "question": "q", "options": ["a", "b"], "label": {label}}}\n'
    (tmp_path / "a.jsonl").write_text(line)
    files = create_choice_writer(tmp_path / "a.jsonl", [], SAME_AS_INPUT)([of(Prediction, 1, 0.25, 0.75)])
    expected = {**json.loads(line), "prediction": predicted, "score": 0.75}
    assert json.loads(files["a.jsonl"]) == expected


def test_passages_of_race(shared):
    source = shared / "data/race/test"
    records = read_race(source)
    predictions = [of(Prediction, record.label, *np.eye(4)[record.label]) for record in records]
    files = create_passage_writer(source, records, SAME_AS_INPUT)(predictions)
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
        create_passage_writer(tmp_path, records, SAME_AS_INPUT)
    files = create_passage_writer(tmp_path, records, OutputFormat(score="sure"))(
        [of(Prediction, 1, 0.25, 0.75)]
    )
    assert json.loads(files["high/0.txt"]) == {**passage, "prediction": ["B"], "sure": [0.75]}


def write(output, files):
    write_predictions(output, files, parse_output_format(output).is_file)


def test_one_file_or_a_folder(tmp_path):
    for text in ("a\n", "b\n"):
        write(tmp_path / "out.csv", {"in.csv": text})
        assert (tmp_path / "out.csv").read_text() == text
    write(tmp_path / "v1.0", {"a": "1", "b/c": "2"})
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError) as caught:
        write(full, {"in.csv": "a\n"})
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")
    assert (tmp_path / "v1.0/b/c").read_text() == "2"
    with pytest.raises(FileExistsError, match=r"v1\.0"):
        write(tmp_path / "v1.0", {"a": "b\n"})
    with pytest.raises(NotADirectoryError, match=r"out\.csv"):
        write(tmp_path / "out.csv/out.csv", {"in.csv": "a\n"})
    with pytest.raises(OSError, match="File name too long"):
        write(tmp_path / "out", {"a": "1", "b" * 300: "2"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "v1.0"]
    write(tmp_path / "a/new/out.csv", {"in.csv": "a\n"})  # whose folders are made, as others are
    assert (tmp_path / "a/new/out.csv").read_text() == "a\n"


def test_more_options_than_letters_are_numbered(tmp_path):
    options = list(map(str, range(40)))
    rows = [{"context": "c", "options": some, "label": "B"} for some in (options, ["a", "b"])]
    file = write_jsonl(tmp_path / "a.jsonl", [{"question": "q", **row} for row in rows])
    predictions = [of(Prediction, 39, *np.eye(40)[39]), of(Prediction, 1, 0.25, 0.75)]
    (content,) = create_choice_writer(file, read_choices(file), SAME_AS_INPUT)(predictions).values()
    assert [json.loads(line)["prediction"] for line in content.splitlines()] == ["39", "1"]
    (tmp_path / "middle").mkdir()
    passage = {"article": "c", "questions": ["q"], "options": [options], "answers": ["B"]}
    (tmp_path / "middle/1.txt").write_text(json.dumps(passage))
    (content,) = create_passage_writer(tmp_path, read_race(tmp_path), SAME_AS_INPUT)(predictions[:1]).values()
    assert json.loads(content)["prediction"] == ["39"]
