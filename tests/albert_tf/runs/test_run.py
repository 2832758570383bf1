import hashlib
import json

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.runs.build_model import task_of
from albert_tf.runs.run_directory import RunContents, RunDirectory
from albert_tf.runs.variable_names import variable_names
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
    names = variable_names(model.config, task_of(model))
    shapes = {variable.name.removesuffix(":0"): tuple(variable.shape) for variable in model.variables}
    assert {name.ours: name.shape for name in names} == shapes
    for form in ("google", "hugging_face"):
        assert len({getattr(name, form).name for name in names}) == len(names)


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
    with pytest.raises(FileExistsError, match=r"ckpt-5\.index"):
        albert_tf.save(model, run, step=5)
    with pytest.raises(FileNotFoundError, match=r"ckpt-6\.index .*0, 5, 10"):
        albert_tf.load(run, 6)


def test_options_are_in_the_task_unless_they_are_defaults_and_tell_models_apart(run, tmp_path):
    plain = albert_tf.AlbertSpanLabeler(SMALL)
    beam = albert_tf.AlbertSpanLabeler(SMALL, answerability=True)
    wide = albert_tf.AlbertSpanLabeler(SMALL, answerability=True, start_n_top=7)
    for model, options in ((plain, {}), (beam, {"answerability": True}), (wide, {"start_n_top": 7})):
        task = {"model": "span_labeler", **({} if model is plain else {"answerability": True}), **options}
        assert task_of(model) == task
    classifier = {"model": "classifier", "num_labels": 3}
    for pooling, options in (("first", {}), ("mean", {"pooling": "mean"})):
        assert task_of(albert_tf.AlbertClassifier(SMALL, 3, pooling)) == {**classifier, **options}
    albert_tf.save(beam, tmp_path / "beam")
    others = albert_tf.AlbertEncoder(SMALL), albert_tf.AlbertPretrainer(TINY)
    for path, model in ((tmp_path / "beam", plain), (tmp_path / "beam", wide), *((run, x) for x in others)):
        with pytest.raises(ValueError, match="is the run of another model"):
            albert_tf.save(model, path, step=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": "absent.model"}, r"absent\.model"),
        ({"vocabulary": __file__}, "SentencePiece"),
        ({"tokenizer": {"cased": True}}, "cased"),
        ({"tokenizer": {"lowercase": "yes"}}, "lowercase='yes'"),
        ({"step": True}, "step=True"),
        ({"step": -1}, "step=-1"),
        ({"run_dir": None}, "run_dir=None"),
    ],
)
def test_nothing_is_half_written(model, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        albert_tf.save(model, **{"run_dir": tmp_path / "run", **changes})
    assert list(tmp_path.iterdir()) == []


def test_a_vocabulary_has_no_more_pieces_than_the_network(tmp_path, tiny_vocabulary):
    small = albert_tf.AlbertEncoder(SMALL.replace(vocab_size=199))
    with pytest.raises(InputError, match=r"200 .*vocab_size=199"):
        albert_tf.save(small, tmp_path / "run", tiny_vocabulary)


def test_something_else_at_the_place(model, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        albert_tf.save(model, tmp_path)
    (tmp_path / "empty").mkdir()
    RunDirectory(tmp_path / "empty").create(RunContents(SMALL, {"model": "encoder"}))
    assert RunDirectory(tmp_path / "empty").config == SMALL
    for file, message in (("", "holds no checkpoint"), ("model.onnx", "empty is an export for onnx")):
        (tmp_path / "empty" / file).touch()
        with pytest.raises(FileNotFoundError, match=message):
            albert_tf.load(tmp_path / "empty")


def test_what_is_not_there_is_a_mistake_of_the_users(run, tmp_path):
    """As for every argument, a ValueError; and what Python calls it."""
    for path, step in ((tmp_path, None), (run, 1)):
        for kind in (ValueError, FileNotFoundError):
            with pytest.raises(kind, match="is missing: "):
                albert_tf.load(path, step)
    with pytest.raises(FileNotFoundError, match=rf"^{tmp_path}/nowhere: no such folder"):
        albert_tf.load(tmp_path / "nowhere")
    (tmp_path / "hub/encoder").mkdir(parents=True)
    (tmp_path / "hub/encoder/saved_model.pb").touch()
    for folder in ("hub", "hub/encoder"):
        with pytest.raises(InputError, match=r"hub:.*/hub/encoder$"):
            albert_tf.load(tmp_path / folder)
    with pytest.raises(InputError, match="a dict cannot be saved"):
        albert_tf.save({}, tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "config.json"),
        ("config.json", '{"hidden_sise": 3}', "config.json: .*'hidden_sise'"),
        ("task.json", "[]", "task.json"),
        ("task.json", '{"model": "oracle"}', "task.json: model='oracle'"),
        ("task.json", '{"model": "classifier"}', "task.json: num_labels"),
        ("task.json", '{"model": "encoder"}', "cls/predictions/output_bias is not in the model"),
        ("config.json", SMALL.replace(intermediate_size=48).to_json_string(), r"bias is \[64\], \[48\]"),
        (
            "config.json",
            SMALL.replace(num_hidden_layers=2, sharing="none").to_json_string(),
            "group_1/inner_group_0/LayerNorm/beta is missing",
        ),
    ],
)
def test_a_damaged_file_is_named(run, name, content, message):
    (run / name).write_text(content)
    with pytest.raises(InputError, match=message):
        albert_tf.load(run)
    (run / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        albert_tf.load(run)
