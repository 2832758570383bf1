"""Pipelines of runs and of exports against each other.

The signatures that they ask are tested by hand in tests/hub_export/serving.
"""

import functools
import itertools
import shutil
import timeit

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from scipy.special import expit, softmax
from sklearn.metrics import r2_score

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.finetuning.predict import predict_files
from albert_tf.models.compiled_encoder import CompiledEncoder
from albert_tf.models.padding import TokenIndex
from albert_tf.sklearn import TextEstimator
from albert_tf.tasks.columns import Columns
from albert_tf.text.vocabulary_training import train_vocabulary
from albert_tf.training import distribution
from hub_export.module_comparison import find_faults
from tests.albert_tf.inference.conftest import KINDS
from tests.tiny import SENTENCES, TINY

WIDE = "Für den Älteren “saß” 🐝 " + " ".join(SENTENCES[:5])
INPUTS = {
    "fill_mask": ["the [MASK] wall", *(f"[MASK] {text[:40]} [MASK]." for text in SENTENCES[:9])],
    "classification": [*SENTENCES[:40], "", "für 🐝"],
    "regression": list(zip(SENTENCES[:9], SENTENCES[9:18], strict=True)),
    "question_answering": [
        {"question": text, "context": f"{n} {WIDE}"} for n, text in enumerate(SENTENCES[:5])
    ],
    "tagging": ["", "  ", *SENTENCES[:9], WIDE, "a\u00a0b\tc\n", "(Paris/London), “Ada”… 🐝."],
    "multiple_choice": [
        {"context": text, "question": "who _ ?", "options": [SENTENCES[n], "one", "two three"][: 2 + n % 2]}
        for n, text in enumerate(SENTENCES[10:15])
    ],
}
INPUTS["answerability"] = INPUTS["question_answering"]
INPUTS["multi_label"] = INPUTS["classification"]


@pytest.fixture(scope="session")
def asked(made):
    """The pipeline of a run."""
    return functools.cache(lambda kind: albert_tf.pipeline(made(kind).run, batch_size=4))


def assert_close(one, other, tolerance=1e-5):
    """The same texts, numbers that are close."""
    tf.nest.assert_same_structure(one, other)
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        assert type(a) is type(b)
        assert a == (pytest.approx(b, abs=tolerance) if isinstance(a, float) else b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "multi_label"])
def test_a_run_and_its_export_agree_in_any_batch(kind, exported, asked, monkeypatch):
    from_positions, found = TokenIndex.from_positions, []
    monkeypatch.setattr(
        TokenIndex,
        "from_positions",
        staticmethod(lambda *index: found.append(index) or from_positions(*index)),
    )
    of_run, inputs = asked(kind)(INPUTS[kind]), INPUTS[kind]
    assert found  # states of padding are not computed
    folder = exported(kind)
    served = albert_tf.pipeline(folder, batch_size=3)
    assert served.task == asked(kind).task
    assert_close(served(inputs), of_run)
    assert_close(asked(kind)(inputs[::-1]), of_run[::-1])
    assert_close([asked(kind)([value])[0] for value in inputs[:3]], of_run[:3])
    if kind not in ("classification", "regression", "answerability"):  # which have the ops of others
        assert list(find_faults(folder / "1", tf.saved_model.load(str(folder / "1")))) == []


@pytest.mark.slow
def test_compiled_by_xla_it_answers_the_same(made, asked, monkeypatch):
    kind = "question_answering"
    inputs = [*INPUTS[kind][:3], INPUTS[kind][-1]]
    expected = asked(kind)(inputs)
    monkeypatch.setattr(TokenIndex, "from_positions", None)  # no program has the shapes of what is padded
    assert_close(albert_tf.pipeline(made(kind).run, batch_size=4, xla=True)(inputs), expected)


def test_gpus_compile_and_an_export_is_as_it_is(made, exported, monkeypatch):
    run = made("classification").run
    monkeypatch.setattr(distribution, "_local_kind", lambda: "GPU")
    monkeypatch.setattr(CompiledEncoder, "__call__", lambda *_: pytest.fail("compiled"))
    albert_tf.pipeline(run, xla=False)("a boat")
    for model in (albert_tf.pipeline(run), albert_tf.TextClassifier.from_pretrained(run).predict):
        with pytest.raises(pytest.fail.Exception, match="compiled"):
            model(["a boat"])
    with pytest.raises(InputError, match=r"xla=True.*--xla"):
        albert_tf.pipeline(exported("classification"), xla=True)


def test_labels_by_hand(made, asked, piece_tokenizer):
    text = SENTENCES[3]
    ids = tf.constant([[2, *piece_tokenizer(tf.constant([text])).to_list()[0][:30], 3]])
    for kind, share in (("classification", tf.nn.softmax), ("multi_label", tf.sigmoid)):
        names = KINDS[kind][1]["labels"]
        expected = share(made(kind).model({"input_word_ids": ids})["logits"])[0].numpy()
        every = asked(kind)(text, top_k=3)
        assert {x["label"]: x["score"] for x in every} == pytest.approx(
            dict(zip(names, expected, strict=True)), abs=1e-5
        )
        assert [x["score"] for x in every] == pytest.approx(sorted(expected, reverse=True), abs=1e-5)
        alone = asked(kind)(text)
        assert alone == (every[0] if kind == "classification" else [x for x in every if x["score"] >= 0.4])


def test_pairs_in_any_form(asked):
    pairs = [("the old clock", "it ran"), ("snow", "the trains stopped")]
    expected = asked("regression")(pairs)
    (a, b), _ = pairs
    assert_close(asked("regression")(tuple(map(list, zip(*pairs, strict=True)))), expected)
    assert_close(asked("regression")(np.array(pairs)), expected)
    dataset = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))
    assert_close(asked("regression")(dataset), expected)
    for form in ([a, b], {"text": a, "text_pair": b}):
        assert_close(asked("regression")([form]), expected[:1])
    for wrong, named in ((dataset.repeat(), "goes on for ever"), (dataset.batch(2), r"inputs\[0\]")):
        with pytest.raises(InputError, match=named):
            asked("regression")(wrong)


def test_several_masks_have_a_list_each(asked):
    found = asked("fill_mask")("the [MASK] wall [MASK]", top_k=7)
    assert [len(mask) for mask in found] == [7, 7]
    scores = [filling["score"] for filling in found[0]]
    assert scores == sorted(scores, reverse=True)
    assert len(asked("fill_mask")("the [MASK] wall")) == 5


def test_places_are_of_characters(asked):
    found = asked("tagging")(INPUTS["tagging"])
    entities = [
        (text, entity) for text, some in zip(INPUTS["tagging"], found, strict=True) for entity in some
    ]
    assert entities
    for text, entity in entities:
        assert text[entity["start"] : entity["end"]] == entity["text"]
        assert entity["label"] in ("X", "Y")  # of runs of words, in an export, too
    found = asked("question_answering")(INPUTS["question_answering"])
    for value, answer in zip(INPUTS["question_answering"], found, strict=True):
        assert answer["answer"]
        assert value["context"][answer["start"] : answer["end"]] == answer["answer"]
    assert any(answer["start"] > 20 for answer in found)  # behind what is of several bytes
    scores = [answer for answer in asked("answerability")(INPUTS["answerability"]) if not answer["answer"]]
    assert all(0.5 < answer["score"] <= 1 and answer["start"] == answer["end"] == 0 for answer in scores)


WORDS = [["(", "Für", "🐝", ")", "b", "…"], ["New York", "a.b"], [], ["\u200b", "one"]]


@pytest.mark.parametrize("source", ["run", "export"])
def test_words_stay_as_they_are(source, asked, exported):
    tagger = asked("tagging") if source == "run" else albert_tf.pipeline(exported("tagging"), batch_size=2)
    found = tagger(WORDS)
    # Only those of the first are words of a text, too.
    text = "(Für 🐝)b…"
    places = {0: 0, 2: 1, 6: 5, 8: 6, 10: 7, 12: 8}, {1: 1, 5: 4, 7: 6, 9: 7, 11: 8, 13: 9}
    of_text = [
        {**entity, "start": places[0][entity["start"]], "end": places[1][entity["end"]]}
        for entity in found[0]
    ]
    expected = tagger(text)
    assert_close(
        of_text, [{**entity, "text": one["text"]} for entity, one in zip(expected, found[0], strict=True)]
    )
    assert expected and found[2] == []
    for words, entities in zip(WORDS, found, strict=True):
        joined = " ".join(words)
        starts = [len(" ".join(words[:n])) + (n > 0) for n in range(len(words))]
        for entity in entities:
            assert joined[entity["start"] : entity["end"]] == entity["text"]
            assert entity["start"] in starts
            assert entity["end"] in [start + len(word) for start, word in zip(starts, words, strict=True)]
    assert_close(tagger(tuple(map(tuple, WORDS))), found)
    assert_close(tagger(np.array([WORDS[1]])), [found[1]])
    assert_close(tagger(pd.Series([np.array(WORDS[1], object)])), [found[1]])
    assert len(tagger(["New York", "a.b"])) == 2  # texts
    assert tagger(pd.DataFrame({"text": INPUTS["tagging"]})) == tagger(INPUTS["tagging"])


def test_predict_refuses_the_other_form_too(made, tmp_path):
    (tmp_path / "table.jsonl").write_text('{"t": "a boat", "p": "a lamp"}\n')
    with pytest.raises(InputError, match=r"table\.jsonl.*single text"):
        predict_files(load_finetuned(made("classification").run), tmp_path / "table.jsonl", Columns("t", "p"))


def test_one_text_has_one_answer(asked):
    of_list = asked("classification")(SENTENCES[:2])
    assert_close(asked("classification")(SENTENCES[0]), of_list[0])
    assert_close(asked("classification")(text for text in SENTENCES[:2]), of_list)
    assert_close(asked("classification")(tf.constant(SENTENCES[:2])), of_list)
    assert_close(asked("classification")({"text": SENTENCES[0]}), of_list[0])
    assert_close(asked("classification")(text=SENTENCES[0]), of_list[0])


def test_one_input_by_the_names_of_its_parts(asked):
    value = INPUTS["question_answering"][0]
    expected = asked("question_answering")(value)
    assert_close(asked("question_answering")(question=value["question"], context=value["context"]), expected)
    pair = {"text": "the old clock", "text_pair": "it ran"}
    assert_close(asked("regression")(**pair), asked("regression")(pair))
    with pytest.raises(InputError, match="question, context"):
        asked("question_answering")(question="who?")
    with pytest.raises(InputError, match="topk"):
        asked("classification")(SENTENCES, topk=2)
    for kind in ("tagging", "fill_mask"):
        text = INPUTS[kind][-1]
        assert_close(asked(kind)(text=text), asked(kind)(text))
        assert_close(asked(kind)([{"text": text}]), asked(kind)([text]))


@pytest.fixture(scope="module")
def headless(made, tiny_vocabulary, tmp_path_factory):
    """The encoder of a run without a head, and a run of it."""
    encoder, run = made("fill_mask").model.encoder, tmp_path_factory.mktemp("headless") / "run"
    albert_tf.save(encoder, run, vocabulary=tiny_vocabulary)
    return encoder, run


def embeddings_by_hand(encoder, tokenizer, texts, pooling="mean", normalize=False, length=32):
    """Embeddings of one text after the other, without padding, by NumPy."""
    found = []
    for text in texts:
        ids = tokenizer(tf.constant([text])).to_list()[0][: length - 2]
        states = encoder({"input_word_ids": tf.constant([[2, *ids, 3]])})["sequence_output"][0].numpy()
        found.append(states[0] if pooling == "first" else states.sum(axis=0) / len(states))
        if normalize:
            found[-1] = found[-1] / np.sqrt(np.sum(found[-1] ** 2))
    return np.stack(found)


@pytest.mark.parametrize("settings", [{}, {"pooling": "mean", "normalize": True}, {"pooling": "first"}])
def test_embeddings_by_hand_of_a_run_and_of_its_export(made, exported, piece_tokenizer, settings):
    kind, texts = "classification", ["a", "", "für 🐝", WIDE, *SENTENCES[:5]]
    expected = embeddings_by_hand(made(kind).model.encoder, piece_tokenizer, texts, **settings)
    for source, batch_size in ((made(kind).run, 4), (made(kind).run, 1), (exported(kind), 3)):
        pipeline = albert_tf.pipeline(source, "feature-extraction", batch_size=batch_size, **settings)
        found = pipeline(texts)
        assert found.dtype == np.float32 and found.shape == (len(texts), 32)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        for form in (texts[0], {"text": texts[0]}):
            np.testing.assert_allclose(pipeline(form), expected[0], atol=1e-5)
        assert pipeline([]).shape == (0, 32)
    served = tf.saved_model.load(str(exported(kind) / "1")).signatures["embed"](text=tf.constant(texts))
    if settings == {}:
        np.testing.assert_allclose(served["embedding"], expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_any_model_has_embeddings(kind, made, piece_tokenizer):
    length = KINDS[kind][1]["seq_length"]
    hand = embeddings_by_hand(made(kind).model.encoder, piece_tokenizer, SENTENCES[:3], length=length)
    found = albert_tf.pipeline("feature-extraction", made(kind).run)(SENTENCES[:3])
    np.testing.assert_allclose(found, hand, atol=1e-5)


def test_embeddings_need_no_head(headless, piece_tokenizer):
    encoder, run = headless
    texts = ["a boat", "", "für 🐝"]
    hand = embeddings_by_hand(encoder, piece_tokenizer, texts)
    np.testing.assert_allclose(albert_tf.pipeline(run, "feature_extraction")(texts), hand, atol=1e-5)


@pytest.mark.slow
def test_embeddings_may_be_compiled(headless, piece_tokenizer, made):
    encoder, run = headless
    texts = ["a boat", "", "für 🐝"]
    hand = embeddings_by_hand(encoder, piece_tokenizer, texts)
    model = albert_tf.TextClassifier.from_pretrained(made("classification").run)
    model.classifier.encoder.set_weights(encoder.get_weights())
    for source, settings in ((run, {"xla": True}), (model, {})):
        found = albert_tf.pipeline(source, "feature-extraction", **settings)(texts)
        np.testing.assert_allclose(found, hand, atol=1e-5)


def test_settings_of_embeddings(made, exported, tmp_path):
    run = made("classification").run
    wrong = [
        ({"pooling": "max"}, "pooling='max'"),
        ({"normalize": 1}, "normalize=1"),
        ({"patience": 2}, "patience=2"),
    ]
    for settings, named in wrong:
        with pytest.raises(InputError, match=named):
            albert_tf.pipeline(run, "feature-extraction", **settings)
    for settings in ({"pooling": "mean"}, {"normalize": False}):
        with pytest.raises(InputError, match="feature-extraction"):
            albert_tf.pipeline(run, **settings)
    pipeline = albert_tf.pipeline(run, "feature-extraction")
    for inputs, named in (([("a", "b")], r"inputs\[0\] holds a pair"), ([5], r"inputs\[0\]=5")):
        with pytest.raises(InputError, match=named):
            pipeline(inputs)
    with pytest.raises(InputError, match="top_k=2"):
        pipeline("a", top_k=2)
    tf.saved_model.save(tf.Module(), str(tmp_path / "empty"))
    with pytest.raises(InputError, match="empty has no signature that embeds"):
        albert_tf.pipeline(tmp_path / "empty", "feature-extraction")


@pytest.mark.parametrize("kind", KINDS)
def test_no_inputs_have_no_answers(kind, made, asked):
    for inputs in ([], (), np.array([], str), iter([])):
        assert asked(kind)(inputs) == []
    assert asked("classification")(pd.DataFrame({"a": [], "b": []})) == []
    if kind == "classification":  # which does not say whether it takes pairs
        model = albert_tf.TextClassifier.from_pretrained(made("fill_mask").run, num_labels=2)
        assert albert_tf.pipeline(model)([]) == []


UNKNOWN = [
    (
        "question_answering",
        {"question": "a", "context": "b", "max_answer_len": 1, "nonsense": 3},
        "max_answer_len=1",
    ),
    ("question_answering", {"question": "a", "context": "b", "nonsense": 3}, "nonsense=3"),
    ("question_answering", {"question": "a", "contxt": "b"}, "contxt='b'.*context"),
    ("classification", {"text": "a", "textpair": "b"}, "textpair='b'.*text_pair"),
    ("classification", {"inputs": "a", "topk": 2}, "topk=2.*top_k"),
    ("classification", {"inputs": "a", "truncation": True}, "truncation=True: texts are cut"),
    ("classification", {"inputs": "a", "return_all_scores": True}, "return_all_scores=True: .*top_k"),
    ("classification", {"inputs": "a", "batch_size": 2}, "batch_size=2: .*pipeline"),
    ("classification", {"inputs": "a", "pooling": "mean"}, "pooling='mean': .*pipeline"),
    ("classification", {"inputs": b"bytes"}, r"inputs\[0\]=b'bytes' is not a text"),
    ("tagging", {"inputs": "a", "aggregation_strategy": "simple"}, "aggregation_strategy='simple'"),
    ("tagging", {"inputs": "a", "text_pair": "b"}, "text_pair='b'"),
]
UNKNOWN_KEYS = [
    ("classification", {"text": "a", "textpair": "b"}, r"'textpair': did you mean text_pair"),
    ("question_answering", {"question": "a", "context": "b", "top_k": 1}, "'top_k'"),
    ("multiple_choice", {"context": "a", "question": "b", "options": ["a", "b", "c"], "label": 1}, "'label'"),
    ("fill_mask", {"text": "[MASK]", "targets": ["a"]}, "'targets'"),
]


@pytest.mark.parametrize(("kind", "keywords", "message"), UNKNOWN)
def test_unknown_keywords_are_named(kind, keywords, message, asked):
    with pytest.raises(InputError, match=message):
        asked(kind)(**keywords)


@pytest.mark.parametrize(("kind", "row", "message"), UNKNOWN_KEYS)
def test_unknown_keys_of_a_row_are_named(kind, row, message, asked):
    for inputs, where in ((row, "inputs"), ([row], r"inputs\[0\]")):
        with pytest.raises(InputError, match=f"^{where}: unknown {message}"):
            asked(kind)(inputs)


@pytest.mark.slow
def test_several_answers(made, exported, asked):
    """The best first, each text once; of an export as many as it has."""
    inputs = [*INPUTS["question_answering"], {"question": "Why?", "context": "Bread"}]
    for kind in ("question_answering", "answerability"):
        best, several = asked(kind)(inputs), asked(kind)(inputs, top_k=5)
        assert_close([answers[0] for answers in several], best)
        for value, answers in zip(inputs, several, strict=True):
            spans = [answer for answer in answers if answer["end"]]
            assert 1 <= len(answers) <= 5
            assert len({answer["answer"] for answer in answers}) == len(answers)
            scores = [answer["score"] for answer in spans]
            assert scores == sorted(scores, reverse=True) and sum(scores) <= 1 + 1e-6
            for answer in spans:
                assert value["context"][answer["start"] : answer["end"]] == answer["answer"]
        assert max(map(len, several)) == 5
        assert_close(asked(kind)(inputs[0], top_k=2), several[0][:2])
        assert_close(albert_tf.pipeline(exported(kind))(inputs, top_k=5), several)
        with pytest.raises(InputError, match=r"top_k=6 .* at most 5"):  # n_best
            asked(kind)(inputs, top_k=6)


SQUARES = [[["one", "two"], ["three", "four"]], (("one", "two"), ("three", "four"))]


@pytest.mark.parametrize("square", SQUARES)
def test_two_rows_that_may_be_two_columns_are_refused(square, made, asked):
    model = albert_tf.TextClassifier.from_pretrained(made("regression").run)
    model.compile()
    estimator = TextEstimator(made("fill_mask").run, task="regression")
    calls = [
        asked("regression"),
        model.predict,
        model,
        lambda x: model.fit(x, [0.0, 1.0]),
        lambda x: model.evaluate(x, [0.0, 1.0]),
        lambda x: model.score(x, [0.0, 1.0]),
        lambda x: estimator.fit(x, [0.0, 1.0]),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"list of tuples.*tuple of lists"):
            call(square)
    rows, columns = list(map(tuple, square)), tuple(map(list, zip(*square, strict=True)))
    assert_close(asked("regression")(rows), asked("regression")(columns))
    assert_close(asked("regression")(np.array(square)), asked("regression")(rows))
    assert len(asked("regression")([["one", "two"]])) == 1
    assert len(asked("regression")([["one", "two"]] * 3)) == 3


WRONG = [
    ("classification", ["a", 5], r"inputs\[1\]=5"),
    ("classification", ("a", "b"), "a pair or two texts"),
    ("classification", {"a", "b"}, "is a set"),
    ("regression", ["a"], r"inputs\[0\]"),
    ("regression", [("a", "b"), ("a",)], r"inputs\[1\]"),
    ("fill_mask", "the [mask]", r"inputs='the \[mask\]' has no \[MASK\]"),
    ("fill_mask", ["the old wall " * 20 + "[MASK]"], r"inputs\[0\]: a \[MASK\] stands"),
    ("question_answering", ["who?"], r"inputs\[0\]='who\?' is not a dict of question, context"),
    ("tagging", [["a", 5]], r"inputs\[0\]\[1\]=5"),
    ("tagging", [["a"], ["b", ""]], r"inputs\[1\]\[1\]=''"),
    ("tagging", [["a"], "b"], "both texts and lists of words"),
    ("tagging", [[["a"]]], r"inputs\[0\]\[0\]"),
    ("multiple_choice", {"context": "a", "question": "b", "options": "c"}, r"\['options'\]='c'"),
    ("multiple_choice", {"context": "a", "question": "b", "options": ["c"]}, "1 options, .* 2 to 3"),
    ("multiple_choice", {"context": "a", "question": "b", "options": ["c", ""]}, r"\['options'\]\[1\]"),
]


@pytest.mark.parametrize(("kind", "inputs", "message"), WRONG)
def test_what_is_not_an_input(kind, inputs, message, asked):
    with pytest.raises(InputError, match=message):
        asked(kind)(inputs)


def test_more_than_there_is(exported, asked):
    for top_k in (0, 1.5):
        with pytest.raises(InputError, match=f"top_k={top_k}"):
            asked("fill_mask")("[MASK]", top_k=top_k)
    with pytest.raises(InputError, match="top_k=2: tagging has one answer"):
        asked("tagging")("a", top_k=2)
    with pytest.raises(InputError, match=r"top_k=6 .* at most 5"):
        albert_tf.pipeline(exported("fill_mask"))("[MASK]", top_k=6)


def test_an_export_by_any_of_its_folders(exported, tmp_path):
    shutil.copytree(exported("regression"), tmp_path / "hub/serving")
    for name in ("hub", "hub/serving", "hub/serving/1"):
        pipeline = albert_tf.pipeline(tmp_path / name)
        assert pipeline.task == "regression"
    with pytest.raises(InputError, match="the model takes a pair"):  # as its run: see WRONG
        pipeline(["a"])


def test_source_and_task_in_any_order(made, monkeypatch, tmp_path):
    run = str(made("classification").run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ner").symlink_to(run)  # a folder may be called like a task
    for arguments, settings in (
        (("text-classification", run), {}),
        ((run, "text-classification"), {}),
        (("sentiment-analysis",), {"model": run}),
        ((), {"task": "classification", "model": run}),
        (("ner",), {}),
    ):
        assert albert_tf.pipeline(*arguments, **settings).task == "classification"
    for arguments, settings in (((run, "tag"), {}), ((run, "ner"), {}), ((run,), {"model": run})):
        with pytest.raises(InputError, match="task="):
            albert_tf.pipeline(*arguments, **settings)


def test_half_a_character_is_no_text(asked):
    for texts, where in ((["a", "b\ud800"], r"inputs\[1\]"), ([("a", "\udc00")], r"inputs\[0\]\[1\]")):
        with pytest.raises(InputError, match=rf"^{where}: '\\ud[8c]00' is half a character"):
            asked("classification")(texts)


def test_a_vocabulary_of_more_pieces_than_the_network_has(made, tmp_path, tiny_corpus):
    """Their embeddings would be those of others on a GPU, and on a CPU an error of some texts."""
    run = shutil.copytree(made("classification").run, tmp_path / "run")
    vocabulary = train_vocabulary(tiny_corpus, tmp_path / "spiece.model", TINY.vocab_size + 20)
    shutil.copy(tmp_path / "spiece.model", run / "spiece.model")
    found = rf"spiece\.model has {len(vocabulary)} pieces, the config says vocab_size={TINY.vocab_size}"
    with pytest.raises(InputError, match=found):
        albert_tf.pipeline(run)


def test_a_text_classifier_as_it_is_and_as_it_was_saved(made, asked, tmp_path):
    model = albert_tf.TextClassifier.from_pretrained(made("classification").run)
    model.save(tmp_path / "model.keras")
    inputs = INPUTS["classification"][:5]
    expected = asked("classification")(inputs, top_k=3)
    for source in (model, str(tmp_path / "model.keras")):
        assert_close(albert_tf.pipeline(source, "text-classification")(inputs, top_k=3), expected)
        with pytest.raises(InputError, match="step=3"):
            albert_tf.pipeline(source, step=3)


def test_what_is_not_a_source(made, tmp_path, tiny_vocabulary):
    is_task = "^text-classification is a task: name the model"
    sources = {tmp_path: "is not a run", "none": "none", None: "source=None", "text-classification": is_task}
    for source, named in sources.items():
        with pytest.raises(InputError, match=named):
            albert_tf.pipeline(source)
    for source in (["sent"], {"a": 1}, np.array(["sent"])):
        with pytest.raises(InputError, match=r"source=.* is not a path"):
            albert_tf.pipeline(source)
    with pytest.raises(InputError, match="'classification' and task='fill_mask' are two tasks"):
        albert_tf.pipeline("classification", "fill_mask", model=tmp_path)
    wrong = [("batch_size", x) for x in (0, 2.5, "8", True)]
    wrong += [("precision", x) for x in (5, "int8", "float16")] + [("xla", "yes")]
    for name, value in wrong:
        with pytest.raises(InputError, match=f"{name}={value!r}"):
            albert_tf.pipeline(made("classification").run, **{name: value})
    tf.saved_model.save(tf.Module(), str(tmp_path / "empty"))
    with pytest.raises(InputError, match="empty has no signature that answers"):
        albert_tf.pipeline(tmp_path / "empty")
    encoder = albert_tf.AlbertEncoder(made("classification").model.config)
    albert_tf.save(encoder, tmp_path / "run", vocabulary=tiny_vocabulary)
    with pytest.raises(InputError, match="'encoder' has no head"):
        albert_tf.pipeline(tmp_path / "run")


def test_another_step_than_the_damaged_one_is_advised(made, tiny_vocabulary, tmp_path):
    model = albert_tf.load(made("classification").run)
    for step, factor in ((1, 1.0), (2, np.nan)):
        model.variables[0].assign(model.variables[0] * factor)
        albert_tf.save(model, tmp_path / "run", vocabulary=tiny_vocabulary, step=step)
    for load in (albert_tf.pipeline, albert_tf.TextClassifier.from_pretrained):
        with pytest.raises(InputError, match=r"NaN.*1$"):
            load(tmp_path / "run", step=2)


def test_what_lies_beyond_an_input_costs_no_time(asked):
    """A megabyte is answered like its beginning, within 0.2 s more."""

    def answers(kind, text):
        return asked(kind)([{**INPUTS[kind][0], "context": text} if kind == "multiple_choice" else text])

    def seconds(text):
        return min(timeit.repeat(lambda: asked("classification")([text]), number=1, repeat=2))

    text = "the [MASK] wall " + "the old wall " * 100_000
    for kind in ("classification", "fill_mask", "multiple_choice"):
        assert_close(answers(kind, text), answers(kind, text[:9_000]))
    for unit in ("the old wall ", "\0", "ж", "a", " ", "\u0301\u0323"):
        short, long = (unit * (size // len(unit.encode())) for size in (1000, 1_000_000))
        assert seconds(long) - seconds(short) < 0.2, unit


# Probabilities, labels and scores of a TextClassifier, beside logits by hand.


def test_one_label_each(made, tmp_path):
    model = albert_tf.TextClassifier.from_pretrained(made("classification").run)
    logits, labels = model.predict(SENTENCES), ["no", "yes", "é"]
    np.testing.assert_allclose(model.predict_proba(SENTENCES), softmax(logits, axis=1), rtol=1e-5)
    right = logits.argmax(axis=1)
    assert model.predict_labels(SENTENCES, batch_size=3) == [labels[number] for number in right]
    shifted = right.copy()
    shifted[::2] = (shifted[::2] + 1) % 3
    share = (right == shifted).mean()
    for given in (shifted, [labels[number] for number in shifted], np.eye(3)[shifted]):
        assert model.score(SENTENCES, given) == share
    with pytest.raises(InputError, match=r"y\[0\]='maybe'"):
        model.score(SENTENCES, ["maybe"] * len(SENTENCES))
    with pytest.raises(InputError, match=r"threshold=0\.3.* 3"):
        albert_tf.TextClassifier.from_pretrained(made("classification").run, threshold=0.3)


def test_any_number_of_labels(made, tmp_path):
    model = albert_tf.TextClassifier.from_pretrained(made("multi_label").run)
    scores = expit(model.predict(SENTENCES))
    np.testing.assert_allclose(model.predict_proba(SENTENCES), scores, rtol=1e-5)
    expected = [tuple(name for name, score in zip("abc", row, strict=True) if score >= 0.4) for row in scores]
    assert model.predict_labels(SENTENCES) == expected
    answers = albert_tf.pipeline(model)(SENTENCES)
    assert [{label["label"] for label in answer} for answer in answers] == list(map(set, expected))
    right = scores >= 0.4
    right[::3, 1] ^= True
    share = 1 - len(right[::3]) / len(right)
    assert model.score(SENTENCES, right.astype(int)) == pytest.approx(share)
    model.compile()
    found = model.evaluate(SENTENCES, right.astype(int), return_dict=True, verbose=0)
    loss = -np.log(np.where(right, scores, 1 - scores)).mean()
    assert found["loss"] == pytest.approx(loss, rel=1e-4)
    model.save(tmp_path / "model.keras")
    again = albert_tf.TextClassifier.load(tmp_path / "model.keras")
    assert again.predict_labels(SENTENCES) == expected


def test_numbers(made):
    model = albert_tf.TextClassifier.from_pretrained(made("regression").run)
    pairs = list(itertools.pairwise(SENTENCES))
    numbers = model.predict(pairs)[:, 0]
    assert model.predict_labels(pairs) == numbers.tolist()
    given = numbers + np.arange(len(numbers)) % 2
    assert model.score(pairs, given) == pytest.approx(r2_score(given, numbers))
    with pytest.raises(InputError, match="predict_proba: a regression"):
        model.predict_proba(pairs)
