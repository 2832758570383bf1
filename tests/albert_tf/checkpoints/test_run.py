import hashlib
import json

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import RunContents, RunDirectory, task_of
from tests.tiny import TINY

SMALL = TINY.replace(num_hidden_layers=1)


@pytest.fixture(scope="module")
def model():
    return albert_tf.AlbertPretrainer(SMALL)


@pytest.fixture
def run(model, tmp_path):
    albert_tf.save(model, tmp_path / "run")
    return tmp_path / "run"


def weights(model):
    return {variable.name: variable.numpy() for variable in model.variables}


@pytest.mark.parametrize(
    "model",
    [
        lambda: albert_tf.AlbertEncoder(SMALL),
        lambda: albert_tf.AlbertPretrainer(SMALL, sentence_objective="nsp"),
        lambda: albert_tf.AlbertPretrainer(SMALL.replace(sharing="ffn"), sentence_objective="none"),
        lambda: albert_tf.AlbertClassifier(SMALL, num_labels=3),
        lambda: albert_tf.AlbertClassifier(SMALL, num_labels=3, pooling="mean"),
        lambda: albert_tf.AlbertTokenClassifier(SMALL, num_labels=3),
        lambda: albert_tf.AlbertSpanLabeler(SMALL),
        lambda: albert_tf.AlbertSpanLabeler(SMALL, answerability=True, end_n_top=3),
        lambda: albert_tf.AlbertMultipleChoice(SMALL, num_choices=4),
    ],
)
def test_load_is_the_inverse_of_save(model, tmp_path):
    model = model()
    albert_tf.save(model, tmp_path / "deep" / "run", step=3)
    loaded = albert_tf.load(tmp_path / "deep" / "run")
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    assert task_of(loaded) == task_of(model)
    assert loaded.get_config() == {**model.get_config(), "name": loaded.name}
    np.testing.assert_equal(weights(loaded), weights(model))


def test_files(model, tmp_path, tiny_vocabulary):
    run = tmp_path / "run"
    albert_tf.save(
        model,
        run,
        tiny_vocabulary,
        step=7,
        tokenizer={"lowercase": False},
        recipe={"seed": 1},
        task={"labels": ["a", "b"]},
    )
    opened = RunDirectory(run)
    assert opened.config == SMALL
    assert opened.task == {"model": "pretrainer", "sentence_objective": "sop", "labels": ["a", "b"]}
    assert opened.tokenizer == {"lowercase": False, "strip_accents": True}
    sha256 = hashlib.sha256(tiny_vocabulary.read_bytes()).hexdigest()
    assert json.loads((run / "recipe.json").read_text()) == {"seed": 1, "vocabulary": sha256}
    assert opened.vocabulary.read_bytes() == tiny_vocabulary.read_bytes()
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [
        "ckpt-7.data-00000-of-00001",
        "ckpt-7.index",
    ]
    albert_tf.save(model, run, step=8)  # the entries of task.json that no model has do not matter
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_steps(model, tmp_path):
    run = tmp_path / "run"
    steps = {}
    for step in (0, 5, 10):
        model.variables[0].assign_add(np.ones(model.variables[0].shape))
        steps[step] = model.variables[0].numpy()
        albert_tf.save(model, run, step=step)
    for step, expected in ((None, steps[10]), (5, steps[5]), (0, steps[0])):
        np.testing.assert_array_equal(albert_tf.load(run, step).variables[0].numpy(), expected)
    with pytest.raises(FileExistsError, match=r"ckpt-5\.index exists already"):
        albert_tf.save(model, run, step=5)
    with pytest.raises(FileNotFoundError, match=r"ckpt-6\.index is missing.*steps 0, 5, 10"):
        albert_tf.load(run, 6)


def test_another_model_does_not_get_into_a_run(run):
    for other in (albert_tf.AlbertEncoder(SMALL), albert_tf.AlbertPretrainer(TINY)):
        with pytest.raises(ValueError, match="is the run of another model"):
            albert_tf.save(other, run, step=1)


def test_options_are_in_the_task_where_they_are_no_defaults(tmp_path):
    plain = albert_tf.AlbertSpanLabeler(SMALL)
    beam = albert_tf.AlbertSpanLabeler(SMALL, answerability=True)
    wide = albert_tf.AlbertSpanLabeler(SMALL, answerability=True, start_n_top=7)
    for model, options in ((plain, {}), (beam, {"answerability": True}), (wide, {"start_n_top": 7})):
        task = {"model": "span_labeler", **({} if model is plain else {"answerability": True}), **options}
        assert task_of(model) == task
    classifier = {"model": "classifier", "num_labels": 3}
    for pooling, options in (("first", {}), ("mean", {"pooling": "mean"})):
        assert task_of(albert_tf.AlbertClassifier(SMALL, 3, pooling)) == {**classifier, **options}
    albert_tf.save(beam, tmp_path / "run")
    for other in (plain, wide):
        with pytest.raises(ValueError, match="is the run of another model"):
            albert_tf.save(other, tmp_path / "run", step=1)


def test_nothing_half_written(model, tmp_path, tiny_vocabulary):
    with pytest.raises(FileNotFoundError, match=r"absent\.model"):
        albert_tf.save(model, tmp_path / "run", tmp_path / "absent.model")
    with pytest.raises(
        ValueError, match="unknown tokenizer setting cased: there are lowercase, strip_accents"
    ):
        albert_tf.save(model, tmp_path / "run", tokenizer={"cased": True})
    with pytest.raises(ValueError, match="lowercase='yes' must be true or false"):
        albert_tf.save(model, tmp_path / "run", tokenizer={"lowercase": "yes"})
    (tmp_path / "no.model").write_text("pieces")
    with pytest.raises(ValueError, match=r"no\.model is not a SentencePiece model"):
        albert_tf.save(model, tmp_path / "run", tmp_path / "no.model")
    with pytest.raises(ValueError, match=r"has 200 pieces, but the model has vocab_size=199"):
        small = albert_tf.AlbertEncoder(SMALL.replace(vocab_size=199))
        albert_tf.save(small, tmp_path / "run", tiny_vocabulary)
    (tmp_path / "no.model").unlink()
    for step in (-1, "1", 1.5, None, True):
        with pytest.raises(ValueError, match=f"step={step!r} must be a whole number"):
            albert_tf.save(model, tmp_path / "run", step=step)
    for path in (None, 5, ""):
        with pytest.raises(ValueError, match=f"run_dir={path!r} is not a path"):
            albert_tf.save(model, path)
    assert list(tmp_path.iterdir()) == []


def test_something_else_at_the_place(model, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already: name another place"):
        albert_tf.save(model, tmp_path)
    (tmp_path / "empty").mkdir()
    RunDirectory(tmp_path / "empty").create(RunContents(SMALL, {"model": "encoder"}))
    assert RunDirectory(tmp_path / "empty").config == SMALL
    with pytest.raises(FileNotFoundError, match="checkpoints holds no checkpoint"):
        albert_tf.load(tmp_path / "empty")


def test_what_is_not_there_is_a_mistake_of_the_users(model, tmp_path):
    """As for every argument, a ValueError; and what Python calls it."""
    albert_tf.save(model, tmp_path / "run")
    for run, step in ((tmp_path, None), (tmp_path / "none", None), (tmp_path / "run", 1)):
        for kind in (ValueError, FileNotFoundError):
            with pytest.raises(kind, match="is missing: "):
                albert_tf.load(run, step)
    (tmp_path / "module").mkdir()
    (tmp_path / "module/saved_model.pb").touch()
    with pytest.raises(ValueError, match=r"not a run directory but an exported module, .* hub:.*/module$"):
        albert_tf.load(tmp_path / "module")
    with pytest.raises(ValueError, match="step='0' must be a whole number"):
        albert_tf.load(tmp_path / "run", "0")
    with pytest.raises(ValueError, match="run_dir=None is not a path"):
        albert_tf.load(None)


def test_no_model_of_ours(tmp_path):
    with pytest.raises(ValueError, match="a dict cannot be saved as a run: it is none of AlbertEncoder"):
        albert_tf.save({}, tmp_path / "run")


@pytest.mark.parametrize("name", ["config.json", "task.json"])
def test_missing_file(run, name):
    (run / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing: .* is not a run directory$"):
        albert_tf.load(run)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "config.json"),
        ("config.json", '{"hidden_sise": 3}', "config.json: unknown config key 'hidden_sise'"),
        ("task.json", "{", "task.json is not a JSON file"),
        ("task.json", "[]", "task.json must hold a JSON object"),
        ("task.json", '{"model": "oracle"}', "task.json: model='oracle' is none of encoder, pretrainer"),
        ("task.json", '{"model": "pretrainer"}', "task.json: sentence_objective is missing"),
        ("task.json", '{"model": "classifier"}', "task.json: num_labels is missing: a classifier needs it"),
        (
            "task.json",
            '{"model": "encoder"}',
            "of another model: cls/predictions/output_bias is not in the model",
        ),
    ],
)
def test_damaged_file(run, name, content, message):
    (run / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        albert_tf.load(run)


def test_config_of_another_shape(run):
    (run / "config.json").write_text(SMALL.replace(intermediate_size=48).to_json_string())
    with pytest.raises(ValueError, match=r"ffn_1/intermediate/dense/bias is \[64\], \[48\] in the model"):
        albert_tf.load(run)
    (run / "config.json").write_text(SMALL.replace(num_hidden_layers=2, sharing="none").to_json_string())
    with pytest.raises(ValueError, match="group_1/inner_group_0/LayerNorm/beta is missing"):
        albert_tf.load(run)
