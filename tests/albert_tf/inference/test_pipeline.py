"""Pipelines of runs and of exports against each other, against `predict`, and against the model by hand."""

import io
import itertools
import json
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.finetuning.predict import predicted_files
from albert_tf.finetuning.trained import read_trained
from albert_tf.inference import pipeline as pipelines
from albert_tf.models.padding import Tokens
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.serving import Signature
from albert_tf.utils.errors import InputError
from hub_export.export import _save_serving
from hub_export.serving import Served, serving_signatures
from tests.albert_tf.inference.conftest import KINDS, SENTENCES, SMALL

CLS, SEP, MASK = 2, 3, 4
WIDE = "Für den Älteren “saß” 🐝 " + " ".join(SENTENCES[:5])
INPUTS = {
    "fill_mask": ["the [MASK] wall", *(f"[MASK] {text[:40]} [MASK]." for text in SENTENCES[:9])],
    "classification": [*SENTENCES[:40], "", "für 🐝"],
    "regression": list(zip(SENTENCES[:9], SENTENCES[9:18], strict=True)),
    "question_answering": [
        {"question": text, "context": f"{n} {WIDE}"} for n, text in enumerate(SENTENCES[:5])
    ],
    "tagging": ["", "  ", *SENTENCES[:9], WIDE, "a\u00a0b\tc\n"],
    "multiple_choice": [
        {"context": text, "question": "who _ ?", "options": [SENTENCES[n], "one", "two three"]}
        for n, text in enumerate(SENTENCES[10:15])
    ],
}
INPUTS["answerability"] = INPUTS["question_answering"]
INPUTS["multi_label"] = INPUTS["classification"]


@pytest.fixture(scope="session")
def asked(made):
    """The pipeline of a run."""
    there = {}

    def ask(kind):
        if kind not in there:
            there[kind] = albert_tf.pipeline(made(kind).run, batch_size=4)
        return there[kind]

    return ask


def assert_close(one, other):
    """The same texts, numbers that agree to 1e-5."""
    assert type(one) is type(other)
    if isinstance(one, list):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_close(*pair)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_close(one[key], other[key])
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-5)
    else:
        assert one == other


@pytest.mark.parametrize("kind", ["classification", "multiple_choice", "question_answering", "tagging"])
def test_states_of_padding_are_computed_by_no_run_and_no_export(kind, made, piece_tokenizer, monkeypatch):
    at, found = Tokens.at, []
    monkeypatch.setattr(Tokens, "at", staticmethod(lambda *places: found.append(places) or at(*places)))
    albert_tf.pipeline(made(kind).run)(INPUTS[kind][:2])
    assert found
    task = KINDS[kind][1]
    signatures = serving_signatures(Served(made(kind).model, piece_tokenizer, task["seq_length"], task))
    del signatures["tokens"]  # which answers with the states of padding, too
    for function in {signature.function for signature in signatures.values()}:
        found.clear()
        function.get_concrete_function()
        assert found


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_and_its_export_agree_in_any_batch(kind, made, asked):
    of_run, inputs = asked(kind)(INPUTS[kind]), INPUTS[kind]
    served = albert_tf.pipeline(made(kind).served, batch_size=3)
    assert served.task == asked(kind).task
    assert_close(served(inputs), of_run)
    assert_close(asked(kind)(inputs[::-1]), of_run[::-1])
    assert_close([asked(kind)([value])[0] for value in inputs[:3]], of_run[:3])


def ids(*segments):
    """The encoder's inputs of one row of segments."""
    words, types = [CLS], [0]
    for number, segment in enumerate(segments):
        words += [*segment, SEP]
        types += [number] * (len(segment) + 1)
    rows = {"input_word_ids": words, "input_mask": [1] * len(words), "input_type_ids": types}
    return {name: tf.constant([row]) for name, row in rows.items()}


def softmax(logits):
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


@pytest.fixture
def tokens(piece_tokenizer):
    return lambda text: piece_tokenizer(tf.constant([text])).to_list()[0]


def test_labels_by_hand(made, asked, tokens):
    model, names = made("classification").model, KINDS["classification"][1]["labels"]
    every = asked("classification")(INPUTS["classification"], top_k=3)
    for text, found, all_found in zip(
        INPUTS["classification"], asked("classification")(INPUTS["classification"]), every, strict=True
    ):
        scores = softmax(model(ids(tokens(text)[:30]))["logits"].numpy()[0])
        assert found == {"label": names[scores.argmax()], "score": pytest.approx(scores.max(), abs=1e-5)}
        assert {x["label"]: x["score"] for x in all_found} == pytest.approx(
            dict(zip(names, scores, strict=True)), abs=1e-5
        )
        assert all_found[0] == found
    assert len({found[0]["label"] for found in every}) > 1


def test_several_labels_by_hand(made, asked, tokens):
    model, texts = made("multi_label").model, INPUTS["multi_label"][:9]
    found, every = asked("multi_label")(texts), asked("multi_label")(texts, top_k=3)
    for text, some, all_labels in zip(texts, found, every, strict=True):
        scores = 1 / (1 + np.exp(-model(ids(tokens(text)[:30]))["logits"].numpy()[0]))
        expected = dict(zip("abc", scores, strict=True))
        assert {x["label"]: x["score"] for x in all_labels} == pytest.approx(expected, abs=1e-5)
        assert some == [x for x in all_labels if x["score"] >= 0.4]
        assert [x["score"] for x in all_labels] == pytest.approx(sorted(scores, reverse=True), abs=1e-5)


def test_scores_of_pairs_by_hand(made, asked, tokens):
    pairs = [("the old clock", "it ran"), ("snow", "the trains stopped")]
    expected = [made("regression").model(ids(tokens(a), tokens(b)))["logits"].numpy()[0, 0] for a, b in pairs]
    assert [found["score"] for found in asked("regression")(pairs)] == pytest.approx(expected, abs=1e-5)
    (a, b), _ = pairs
    columns = tuple(map(list, zip(*pairs, strict=True)))
    assert asked("regression")(columns) == asked("regression")(pairs)
    with pytest.raises(InputError, match="two pairs or two columns"):
        asked("regression")([*columns])
    for form in ([a, b], {"text": a, "text_pair": b}):
        assert asked("regression")([form])[0]["score"] == pytest.approx(expected[0], abs=1e-5)
    assert asked("regression")(np.array(pairs))[1]["score"] == pytest.approx(expected[1], abs=1e-5)


def test_fillings_by_hand(made, asked, tokens, piece_tokenizer):
    inputs = ids([*tokens("the"), MASK, *tokens("wall"), MASK])
    places = np.flatnonzero(inputs["input_word_ids"].numpy()[0] == MASK)
    logits = made("fill_mask").model({**inputs, "masked_lm_positions": tf.constant([places])})["mlm_logits"][
        0
    ]
    found = asked("fill_mask")("the [MASK] wall [MASK]", top_k=7)
    assert [len(mask) for mask in found] == [7, 7]
    pieces = piece_tokenizer.vocabulary.pieces
    for mask, row in zip(found, logits.numpy(), strict=True):
        scores = softmax(row)
        scores[:5] = 0  # special pieces
        best = np.argsort(-scores)[:7]
        assert [x["token"] for x in mask] == [pieces[n].replace("▁", "") or "▁" for n in best]
        assert [x["score"] for x in mask] == pytest.approx(scores[best].tolist(), abs=1e-5)
    alone = asked("fill_mask")("the [MASK] wall")
    assert len(alone) == 5
    assert alone[0].keys() == {"token", "score"}


def test_options_by_hand(made, asked, tokens):
    value = {"context": "the water is warm", "question": "the water is", "options": ["cold", "warm", "dry"]}
    rows = [ids(tokens(value["context"]), tokens(f"{value['question']} {x}")) for x in value["options"]]
    logits = [
        made("multiple_choice").model({n: tf.stack([x] * 3, axis=1) for n, x in row.items()})["logits"][0, 0]
        for row in rows
    ]
    scores = softmax(np.array(logits))
    found = asked("multiple_choice")(value)
    assert found == {"label": int(scores.argmax()), "score": pytest.approx(scores.max(), abs=1e-5)}


def test_entities_by_hand(made, asked, tokens):
    text = "Ünder  the “wall” 🐝 stood\u2003a lamp"
    words = text.split()
    pieces = [tokens(word) for word in words]
    row = ids(list(itertools.chain(*pieces))[:14])
    logits = made("tagging").model(row)["logits"].numpy()[0]
    assert sum(map(len, pieces)) > 14  # in a second window
    found = asked("tagging")(text)
    assert found
    for entity in found:
        assert text[entity["start"] : entity["end"]] == entity["text"]
        assert entity["label"] == "X"
    starts = np.cumsum([1, *map(len, pieces)])
    for word, place in zip(words, starts, strict=False):
        if place + len(tokens(word)) <= 15:
            tag = ["O", "B-X", "I-X"][logits[place].argmax()]
            begin = text.index(word)
            inside = any(x["start"] <= begin and begin + len(word) <= x["end"] for x in found)
            assert inside == (tag != "O")


def test_answers_by_hand(made, asked, tokens, piece_tokenizer):
    """All spans of a context of one window, in characters that are of several bytes."""
    question, context = "who", "Äëï für 🐝 saß the lamp"
    asked_ids, told = tokens(question), tokens(context)
    outputs = made("question_answering").model(ids(asked_ids, told))
    starts, ends = (np.log(softmax(outputs[name].numpy()[0])) for name in ("start_logits", "end_logits"))
    first = len(asked_ids) + 2
    spans = [
        (starts[a] + ends[b], a, b)
        for a in range(first, first + len(told))
        for b in range(a, min(a + 8, first + len(told)))
        if a in np.argsort(-starts)[:5] and b in np.argsort(-ends)[:5]
    ]
    _, begins, limits = (
        x.to_list()[0] for x in piece_tokenizer.tokenize_with_offsets(tf.constant([context]))
    )
    raw = context.encode()
    texts = [raw[begins[a - first] : limits[b - first]].decode().strip() for _, a, b in sorted(spans)[::-1]]
    found = asked("question_answering")({"question": question, "context": context})
    assert found["answer"] == texts[0] != ""
    assert context[found["start"] : found["end"]] == found["answer"]


def test_answers_stand_in_their_contexts(asked):
    found = asked("question_answering")(INPUTS["question_answering"])
    for value, answer in zip(INPUTS["question_answering"], found, strict=True):
        assert answer["answer"]
        assert value["context"][answer["start"] : answer["end"]] == answer["answer"]
    assert any(answer["start"] > 20 for answer in found)  # behind what is of several bytes
    scores = [answer for answer in asked("answerability")(INPUTS["answerability"]) if not answer["answer"]]
    assert all(0.5 < answer["score"] <= 1 and answer["start"] == answer["end"] == 0 for answer in scores)


def test_as_predict(made, asked, tmp_path):
    texts = INPUTS["classification"][:9]
    table = tmp_path / "table.jsonl"
    table.write_text("".join(json.dumps({"t": text}) + "\n" for text in texts))
    files = predicted_files(read_trained(made("classification").run), table)
    for line, found in zip(files["table.jsonl"].splitlines(), asked("classification")(texts), strict=True):
        row = json.loads(line)
        assert found == {"label": row["prediction"], "score": pytest.approx(row["score"], abs=1e-5)}
    squad = tmp_path / "dev.json"
    values = INPUTS["question_answering"]
    paragraphs = [
        {"context": value["context"], "qas": [{"id": str(n), "question": value["question"], "answers": []}]}
        for n, value in enumerate(values)
    ]
    squad.write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}))
    files = predicted_files(read_trained(made("question_answering").run), squad)
    best = [answers[0] for answers in json.loads(files["nbest.json"]).values()]
    for answer, found in zip(best, asked("question_answering")(values), strict=True):
        assert found["answer"] == answer["text"]
        assert found["score"] == pytest.approx(answer["probability"], abs=1e-5)


def test_one_text_has_one_answer(asked):
    of_list = asked("classification")(SENTENCES[:2])
    assert_close(asked("classification")(SENTENCES[0]), of_list[0])
    assert_close(asked("classification")(text for text in SENTENCES[:2]), of_list)
    assert_close(asked("classification")(np.array(SENTENCES[:2])), of_list)
    assert_close(asked("classification")(tf.constant(SENTENCES[:2])), of_list)
    assert_close(asked("classification")({"text": SENTENCES[0]}), of_list[0])
    assert asked("classification")([]) == []


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_progress_bar_on_a_terminal_where_it_takes_long(asked, monkeypatch):
    texts = SENTENCES[:20]
    for patience, output, is_shown in (
        (0, Terminal(), True),
        (60, Terminal(), False),
        (0, io.StringIO(), False),
    ):
        monkeypatch.setattr(pipelines, "PATIENCE", patience)
        monkeypatch.setattr(sys, "stderr", output)
        asked("classification")(texts)
        assert (f"{len(texts)}/{len(texts)}" in output.getvalue()) == is_shown
        assert bool(output.getvalue()) == is_shown


WRONG = [
    ("classification", ["a", None], r"inputs\[1\]=None is not a text"),
    ("classification", ["a", float("nan")], r"inputs\[1\]=nan is not a text"),
    ("classification", [b"a"], r"inputs\[0\]=b'a' is not a text"),
    ("classification", 5, "inputs=5 is neither a text nor a list"),
    ("classification", ("a", "b"), "a tuple of two texts may be a pair or two texts"),
    ("classification", [("a", "b")], r"inputs\[0\] is .*pairs?.*trained on a single text"),
    ("regression", ["a"], r"inputs\[0\] is a single text.*trained on pairs"),
    ("regression", [("a", "b"), ("a",)], r"inputs\[1\] is a single text"),
    ("regression", [("a", None)], r"inputs\[0\]\[1\]=None is not a text"),
    ("classification", {"a", "b"}, "is a set, which has no order: give a list"),
    ("classification", np.array(["a", None], object), r"inputs\[1\]=None is not a text"),
    ("regression", [("a", "b", "c")], r"inputs\[0\]=.* is not a pair of texts"),
    ("regression", [("a", 3)], r"inputs\[0\]\[1\]=3 is not a text"),
    ("fill_mask", "the [mask]", r"inputs='the \[mask\]' has no \[MASK\]"),
    ("fill_mask", ["the old wall " * 20 + "[MASK]"], r"inputs\[0\]: a \[MASK\] stands"),
    ("question_answering", ["who?"], r"inputs\[0\]='who\?' is not a dict of question, context"),
    ("question_answering", [{"question": "who?"}], "is not a dict of question, context"),
    ("question_answering", {"question": "q", "context": None}, r"inputs\['context'\]=None is not a text"),
    (
        "multiple_choice",
        {"context": "a", "question": "b", "options": "c"},
        r"\['options'\]='c' is not a list",
    ),
    (
        "multiple_choice",
        {"context": "a", "question": "b", "options": ["c"]},
        "1 options where the model knows 3",
    ),
]


@pytest.mark.parametrize(("kind", "inputs", "message"), WRONG)
def test_what_is_not_an_input(kind, inputs, message, asked):
    with pytest.raises(InputError, match=message):
        asked(kind)(inputs)


def test_more_than_there_is(made, asked):
    with pytest.raises(InputError, match="top_k=0 must be a whole number of at least 1"):
        asked("fill_mask")("[MASK]", top_k=0)
    with pytest.raises(InputError, match=r"top_k=1\.5 must be a whole number"):
        asked("fill_mask")("[MASK]", top_k=1.5)
    with pytest.raises(InputError, match="top_k=2: tagging has one answer"):
        asked("tagging")("a", top_k=2)
    with pytest.raises(InputError, match="top_k=6: the exported model gives 5 at most"):
        albert_tf.pipeline(made("fill_mask").served)("[MASK]", top_k=6)
    with pytest.raises(InputError, match=r"inputs\[0\] is .*pairs?.*trained on a single text"):
        albert_tf.pipeline(made("classification").served)([("a", "b")])


def test_an_export_by_any_of_its_folders(made, tmp_path):
    served = made("classification").served
    shutil.copytree(served, tmp_path / "hub/serving")
    expected = albert_tf.pipeline(served)(["a boat"])
    for name in ("hub", "hub/serving", "hub/serving/1"):
        assert albert_tf.pipeline(tmp_path / name)(["a boat"]) == expected


def test_the_names_and_the_order_of_hugging_face(made):
    run = made("classification").run
    for arguments, settings in (
        (("text-classification", str(run)), {}),
        ((), {"task": "text-classification", "model": run}),
    ):
        assert albert_tf.pipeline(*arguments, **settings).task == "classification"


def test_a_text_classifier_as_it_is_and_as_it_was_saved(made, asked, tmp_path):
    model = albert_tf.TextClassifier.from_run(made("classification").run)
    model.save(tmp_path / "model.keras")
    inputs = INPUTS["classification"]
    expected = asked("classification")(inputs, top_k=3)
    for source in (model, str(tmp_path / "model.keras")):
        assert_close(albert_tf.pipeline(source, "text-classification")(inputs, top_k=3), expected)
        with pytest.raises(InputError, match="step=3"):
            albert_tf.pipeline(source, step=3)
    with pytest.raises(InputError, match="task='ner'"):
        albert_tf.pipeline(model, "ner")
    with pytest.raises(InputError, match=r"source=.* is not a path"):
        albert_tf.pipeline(model.classifier)
    model.classifier.classifier.output_bias.assign([np.nan, 0, 0])
    with pytest.raises(InputError, match="NaN or infinity in classifier/output_bias"):
        albert_tf.pipeline(model)


@pytest.mark.parametrize(
    "entries", [{"takes_pairs": True}, {"columns": {"text": "a", "text_pair": "b"}}, {"task": "rte"}]
)
def test_a_model_of_pairs_answers_no_single_texts(entries, made, piece_tokenizer, tiny_vocabulary, tmp_path):
    """Neither as a run, nor exported, nor by `predict`."""
    task = {"task": "classification", "labels": ["no", "yes", "é"], "seq_length": 32, **entries}
    model = made("classification").model
    albert_tf.save(model, tmp_path / "run", vocabulary=tiny_vocabulary, task=task)
    served = Served(model, piece_tokenizer, 32, task)
    _save_serving(served, serving_signatures(served), tmp_path / "serving/1")
    answers = []
    for source in ("run", "serving"):
        answerer = albert_tf.pipeline(tmp_path / source)
        for inputs in ("a boat", ["a boat"], [("a boat", "a lamp"), "a"]):
            with pytest.raises(InputError, match=r"trained on pairs"):
                answerer(inputs)
        answers.append(answerer([("a boat", "a lamp")], top_k=3))
    assert_close(*answers)
    if task["task"] == "classification":
        (tmp_path / "table.jsonl").write_text('{"a": "a boat"}\n')
        with pytest.raises(InputError, match=r"table\.jsonl .*trained on pairs"):
            predicted_files(read_trained(tmp_path / "run"), tmp_path / "table.jsonl", Columns("a"))


def test_an_export_whose_labels_are_the_same_for_all_rows(made, asked, piece_tokenizer, tmp_path):
    """As they were exported before there was a row of them for each text."""
    served = Served(made("classification").model, piece_tokenizer, 32, KINDS["classification"][1])
    signature = serving_signatures(served)["serving_default"]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def earlier(text):
        answers = signature.function(text)
        return {**answers, "labels": answers["labels"][0]}

    _save_serving(served, {"serving_default": Signature(earlier, signature.example)}, tmp_path / "1")
    inputs = INPUTS["classification"]
    found = albert_tf.pipeline(tmp_path / "1", batch_size=7)(inputs, top_k=3)
    assert_close(found, asked("classification")(inputs, top_k=3))


def test_what_is_not_a_source(made, tmp_path, tiny_vocabulary):
    with pytest.raises(InputError, match=r"source='.*' is not a run directory: .* nor an exported serving"):
        albert_tf.pipeline(tmp_path)
    with pytest.raises(InputError, match="source='none': none is neither a path here nor a published name"):
        albert_tf.pipeline("none")
    with pytest.raises(InputError, match="task='tag' is none of fill_mask, classification"):
        albert_tf.pipeline("none", "tag")
    for task in ("tagging", "ner", "fill-mask"):
        with pytest.raises(InputError, match=f"task='{task}': the model of .* answers classification"):
            albert_tf.pipeline(made("classification").run, task)
    for size in (0, None, "8"):
        with pytest.raises(InputError, match=f"batch_size={size!r} must be a whole number of at least 1"):
            albert_tf.pipeline(made("classification").run, batch_size=size)
    with pytest.raises(InputError, match="source=None is not a path"):
        albert_tf.pipeline(None)
    with pytest.raises(InputError, match="step=3 is of a run's checkpoint"):
        albert_tf.pipeline(made("classification").served, step=3)
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    with pytest.raises(InputError, match="is not a SavedModel, or damaged"):
        albert_tf.pipeline(tmp_path)
    tf.saved_model.save(tf.Module(), str(tmp_path / "empty"))
    with pytest.raises(InputError, match="empty has no signature that answers"):
        albert_tf.pipeline(tmp_path / "empty")
    encoder = albert_tf.AlbertEncoder(made("classification").model.config)
    albert_tf.save(encoder, tmp_path / "run", vocabulary=tiny_vocabulary)
    with pytest.raises(InputError, match="is of an encoder without a head: it answers nothing"):
        albert_tf.pipeline(tmp_path / "run")


def test_another_step_than_the_damaged_one_is_advised(made, tiny_vocabulary, tmp_path):
    model = albert_tf.AlbertClassifier(SMALL, 2)
    for step, factor in ((1, 1.0), (2, np.nan), (3, 1.0)):
        model.variables[0].assign(model.variables[0] * factor)
        albert_tf.save(model, tmp_path / "run", vocabulary=tiny_vocabulary, step=step)
        model = albert_tf.AlbertClassifier(SMALL, 2)
    for load in (albert_tf.pipeline, albert_tf.TextClassifier.from_run):
        with pytest.raises(InputError, match=r"NaN.*1, 3$"):
            load(tmp_path / "run", step=2)
