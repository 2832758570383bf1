"""Runs on another filesystem than this machine's, by TensorFlow's own ram://."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune_runs
from albert_tf.runs.run_directory import RunDirectory, best_run
from hub_export.export import export
from tests.albert_tf.finetuning.conftest import asked, own_table  # noqa: F401
from tests.albert_tf.finetuning.runs import RECIPE as FINETUNING
from tests.tiny import TINY


@pytest.mark.slow
def test_a_finetuned_run(run, asked, own_table, tmp_path):  # noqa: F811
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
