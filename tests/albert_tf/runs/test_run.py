import hashlib
import json
import math
import shutil
from hashlib import sha256

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.conversion.init_from import open_init_from
from albert_tf.conversion.name_mapping import variable_map
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune_runs
from albert_tf.runs.build_model import task_of, variable_shapes
from albert_tf.runs.run_directory import (
    RunContents,
    RunDirectory,
    StepOrder,
    best_run,
    provenance_record,
    read_metrics,
)
from albert_tf.text.tokenizer import open_tokenizer
from hub_export.export import export
from tests.albert_tf.finetuning.runs import RECIPE as FINETUNING
from tests.albert_tf.pretraining.runs import weights_of
from tests.tiny import TINY, change_json

SMALL = TINY.replace(num_hidden_layers=1)


@pytest.fixture(scope="module")
def model():
    return albert_tf.AlbertPretrainer(SMALL)


@pytest.fixture
def saved(model, tmp_path):
    albert_tf.save(model, tmp_path / "run")
    return tmp_path / "run"


def check_names(model):
    """Each variable is in the tables of names, once, with its shape."""
    shapes = {variable.name.removesuffix(":0"): tuple(variable.shape) for variable in model.variables}
    assert variable_shapes(model.config, task_of(model)) == shapes
    for form in ("google", "hugging_face"):
        there = variable_map(form, model.config, task_of(model))
        assert len({entry.name for entry in there.values()}) == len(shapes)


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
    np.testing.assert_equal(weights_of(loaded), weights_of(model))
    check_names(model)


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


def test_options_are_in_the_task_unless_they_are_defaults_and_tell_models_apart(saved, tmp_path):
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
    for path, model in ((tmp_path / "beam", plain), (tmp_path / "beam", wide), *((saved, x) for x in others)):
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


def test_a_run_that_chooses_its_step_by_metrics_takes_no_weights_without_them(saved, model):
    """They would never be used."""
    change_json(saved / "task.json", best_by="eval_accuracy")
    with pytest.raises(InputError, match=str(saved)):
        albert_tf.save(model, saved, step=1)
    assert RunDirectory(saved).steps() == [0]


def test_what_is_not_there_is_a_mistake_of_the_users(saved, tmp_path):
    """As for every argument, a ValueError; and what Python calls it."""
    for path, step in ((tmp_path, None), (saved, 1)):
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
def test_a_damaged_file_is_named(saved, name, content, message):
    (saved / name).write_text(content)
    with pytest.raises(InputError, match=message):
        albert_tf.load(saved)
    (saved / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        albert_tf.load(saved)


def test_weights_that_are_cut_off_are_told_with_the_remedy(saved):
    (data,) = (saved / "checkpoints").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(InputError, match=r"\.data file is damaged: .*: copy the run again, or train again$"):
        albert_tf.load(saved)


# metrics.jsonl, as a run leaves it and as others do.

LINE = b'{"step": 1, "loss": 6.5, "gradient_norm": null}\n'


def test_lines_in_their_order(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"metrics\.jsonl"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_bytes(LINE + b'{"step": 2, "loss": 6}\n' + LINE[:20])  # cut off
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 6.5, "gradient_norm": None}, {"step": 2, "loss": 6}]


@pytest.mark.parametrize(
    "line",
    [
        *(b"5", b"{", b"\xff\xfe{", b'{"loss": 1}', b'{"step": "1"}', b'{"step": 2, "loss": "x"}'),
        *(b'{"step": true}', b'{"step": -1}', b'{"step": null}', b'{"step": 2, "loss": false}'),
        *(b'{"step": 2, "loss": NaN}', b'{"step": 2, "loss": 1e400}', b'{"step": 2, "loss": [1]}'),
    ],
)
def test_a_line_that_holds_no_figures(line, tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(LINE + line + b"\n" + LINE)
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
        read_metrics(tmp_path)


@pytest.mark.parametrize("length", range(len(LINE)))
def test_a_last_line_is_cut_off_anywhere(length, tmp_path):
    """By a kill in the middle of a write; where only its line feed is missing it is whole."""
    (tmp_path / "metrics.jsonl").write_bytes(LINE + LINE[:length])
    assert len(read_metrics(tmp_path)) == (2 if length == len(LINE) - 1 else 1)


@pytest.mark.parametrize(
    "end", [bytes(100), b"{" + bytes(9), LINE[:9] + bytes(4096), b"\xff", b"loss", b"7", b"[", b"{}"]
)
def test_an_end_that_no_kill_leaves_is_damage(end, tmp_path):
    """Such as the NULs that a filesystem leaves at a power cut."""
    (tmp_path / "metrics.jsonl").write_bytes(LINE + end)
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
        read_metrics(tmp_path)


@pytest.mark.parametrize(
    ("metric", "values", "losses", "since"),
    [
        ("eval_loss", [], [0.7, 0.69995, 0.69985, 0.6998], 1),  # two evaluations together fall enough
        ("eval_loss", [], [0.7, 0.69999999, 0.69999998], 2),
        ("eval_loss", [], [0.7, 0.6998, 0.6999], 1),
        ("eval_f1", [0.5, 0.5, 0.5], [0.7, 0.69999, 0.69998], 2),
        ("eval_f1", [0.5, 0.5, 0.5], [0.7, 0.6, 0.5], 0),
        ("eval_f1", [0.5, 0.500001, 0.500002], [0.7, 0.7, 0.7], 2),
        ("eval_f1", [0.5, 0.6, 0.6], [None, None, None], 1),
        ("eval_f1", [0.5, 0.4, 0.4], [0.7, 0.5, 0.4], 2),
    ],
)
def test_a_gain_of_rounding_is_none(metric, values, losses, since):
    lines = [{"step": step, "eval_loss": loss} for step, loss in enumerate(losses)]
    for line, value in zip(lines, values, strict=False):
        line[metric] = value
    assert StepOrder(metric).evaluations_without_gain(lines) == since


def test_only_the_last_stage_tells_the_best_step():
    losses = {2: 1.0, 4: 1.5, 6: 3.0, 8: 2.5, 10: 2.7, 12: 2.6}
    lines = [{"step": step, "eval_loss": loss} for step, loss in losses.items()]
    best = StepOrder("eval_loss", after=4)
    assert best.step(lines, losses) == 8
    assert best.evaluations_without_gain(lines) == 2
    assert best._replace(after=12).step(lines, losses) is None
    assert best._replace(after=12).evaluations_without_gain(lines) == 0
    assert best._replace(after=0).step(lines, losses) == 2


# The table of names and shapes against models of ours and against real checkpoints.

CONFIGS = {
    "all": TINY,
    "groups": TINY.replace(num_hidden_groups=3, inner_group_num=2),
    "attention": TINY.replace(sharing="attention"),
    "ffn": TINY.replace(sharing="ffn"),
    "none": TINY.replace(sharing="none"),
    "no projection": TINY.replace(embedding_size=32),
    "projection all the same": TINY.replace(embedding_size=32, project_embeddings=True),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_variable_of_the_encoder_once(config):
    check_names(albert_tf.AlbertEncoder(config))


@pytest.mark.parametrize("preset", albert_tf.PRESETS)
def test_presets(preset):
    """The true sizes, without the memory they take."""
    config = albert_tf.PRESETS[preset]
    sizes = {name: math.prod(shape) for name, shape in variable_shapes(config, {"model": "encoder"}).items()}
    for form in ("hub", "hugging_face"):
        entries = variable_map(form, config, {"model": "encoder"})
        assert {name: math.prod(entry.shape) for name, entry in entries.items()} == sizes


@pytest.mark.parametrize("release", ["en_albert_base", "en_albert_large", "zh_albert_base"])
def test_published_checkpoints(shared, release):
    """Names and shapes of real releases are those of the table."""
    folder = shared / "golden" / "tf1_index" / release
    lines = (folder / "variables.txt").read_text().splitlines()[1:]
    published = dict(line.split(" ", 1) for line in lines)
    config = albert_tf.AlbertConfig.from_json_file(folder / "albert_config.json")
    entries = variable_map("google", config, {"model": "pretrainer", "sentence_objective": "sop"}).values()
    ours = {entry.name: str(list(entry.shape)) for entry in entries}
    assert ours == {name: shape for name, shape in published.items() if name != "global_step"}


# The record of where a run's weights began.


def hub_module(folder, index):
    (folder / "variables").mkdir(parents=True)
    (folder / "variables" / "variables.index").write_bytes(index)
    return f"hub:{folder}"


def test_an_origin_is_recorded_by_its_content(tmp_path):
    """A published name has none here, nor has what is not there; a begun run keeps what it has recorded."""
    contents = {"a": b"1", "b": b"1", "c": b"2"}
    first, copy, other = (hub_module(tmp_path / name, index) for name, index in contents.items())
    published = ("albert_base_v2", "https://tfhub.dev/google/albert_base/3")
    found = [provenance_record({}, origin) for origin in (first, copy, other, *published)]
    assert [record["init_from"] for record in found] == [first, copy, other, *published]
    one, two = (sha256(content).hexdigest() for content in (b"1", b"2"))
    assert [record["init_from_sha256"] for record in found] == [one, one, two, None, None]
    (tmp_path / "a" / "variables" / "variables.index").unlink()
    assert provenance_record(found[0], first) == found[0]
    assert provenance_record(found[0], copy) == found[1]


# Runs on another filesystem than this machine's, by TensorFlow's own ram://.


@pytest.mark.slow
def test_a_finetuned_run(run, asked, own_table, tmp_path):
    for path in run.rglob("*"):
        if path.is_file():
            target = f"ram://origin/{path.relative_to(run)}"
            tf.io.gfile.makedirs(target.rpartition("/")[0])
            tf.io.gfile.copy(str(path), target, overwrite=True)
    short = {**FINETUNING, "steps": 2, "warmup_steps": 1}
    changes = {"init_from": "ram://origin", "config": None, "vocabulary": None}
    best, _ = finetune_runs(asked("ram://seeds", recipe=short, **changes), 1, lambda line: None)
    assert best_run("ram://seeds").path == best.path
    output = tmp_path / "out.jsonl"
    assert (
        cli.run(["predict", "--run", "ram://seeds", "--input", str(own_table), "--output", str(output)]) == 0
    )
    assert len(output.read_text().splitlines()) == 38
    export(best, tmp_path / "hub", check=False)
    files = {"config.json", "tokenizer.json", "task.json", "spiece.model"}
    for path in (tmp_path / "hub/serving/1/assets").iterdir():
        if path.name in files - {"spiece.model"}:
            assert path.read_bytes() == tf.io.gfile.GFile(best.file(path.name), "rb").read()
        files.discard(path.name)
    assert not files


def test_a_model(tmp_path, tiny_vocabulary):
    model = albert_tf.AlbertEncoder(TINY)
    for folder in ("ram://saved/run", str(tmp_path / "run")):
        albert_tf.save(model, folder, tiny_vocabulary)
        albert_tf.save(model, folder, step=4)
        assert RunDirectory(folder).vocabulary.read_bytes() == tiny_vocabulary.read_bytes()
        loaded = albert_tf.load(folder)
        np.testing.assert_equal([v.numpy() for v in loaded.variables], [v.numpy() for v in model.variables])
        with pytest.raises(FileExistsError, match="ckpt-4"):
            albert_tf.save(model, folder, step=4)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="ram://nowhere: no such folder"):
        albert_tf.load("ram://nowhere")
    with pytest.raises(InputError, match="foo://"):
        albert_tf.load("foo://bucket/run")
    tf.io.gfile.makedirs("ram://taken")
    with tf.io.gfile.GFile("ram://taken/thesis.txt", "w") as file:
        file.write("The only copy.")
    with pytest.raises(FileExistsError):
        albert_tf.save(model, "ram://taken")


def test_a_vocabulary_elsewhere_keeps_all_settings_of_its_run(tmp_path, tiny_vocabulary):
    words = tmp_path / "vocab.txt"
    words.write_text("\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")))
    model = albert_tf.AlbertEncoder(TINY.replace(vocab_size=6))
    albert_tf.save(model, "ram://settings/run", words, tokenizer={"like_transformers": True})
    assert open_tokenizer(RunDirectory("ram://settings/run").vocabulary).settings["like_transformers"]


def test_a_run_without_a_vocabulary_takes_one_of_any_kind(tmp_path, tiny_vocabulary):
    words = tmp_path / "vocab.txt"
    words.write_text("\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")))
    bert = TINY.replace(vocab_size=6, sharing="none", embedding_size=TINY.hidden_size)
    albert_tf.save(albert_tf.AlbertEncoder(bert), tmp_path / "run")
    cased = tmp_path / "cased.txt"
    cased.write_text(words.read_text())
    (tmp_path / "cased.txt.tokenizer.json").write_text('{"kind": "wordpiece", "lowercase": false}')
    with open_init_from(tmp_path / "run", cased) as start:
        assert not start.tokenizer["lowercase"]
    shutil.copy(words, tmp_path / "run")
    assert RunDirectory(tmp_path / "run").load_tokenizer().kind == "wordpiece"
    bert = bert.replace(vocab_size=TINY.vocab_size)
    albert_tf.save(albert_tf.AlbertEncoder(bert), tmp_path / "other")
    shutil.copy(tiny_vocabulary, tmp_path / "other/spiece.model")  # as the preset bert_base has
    tokenizer = RunDirectory(tmp_path / "other").load_tokenizer()
    assert (tokenizer.kind, tokenizer.settings) == (
        "sentencepiece",
        {"lowercase": True, "strip_accents": True},
    )
