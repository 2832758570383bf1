import errno
import os
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import albert_tf
from albert_tf import filesystem
from albert_tf.errors import InputError
from albert_tf.runs.checkpoints import (
    DamagedCheckpoint,
    checkpoint_parts,
    checkpoint_steps,
    delete_checkpoint,
    read_checkpoint,
    remove_unfinished_checkpoints,
    write_checkpoint,
)
from tests.full_disk import no_file_beyond
from tests.tiny import TINY

SMALL = TINY.replace(num_hidden_layers=1)


def parts():
    """Model, optimizer, step and input, as training has them."""
    model = albert_tf.AlbertPretrainer(SMALL)
    optimizer = albert_tf.optimization.create_optimizer("lamb", init_lr=0.1, num_train_steps=10)
    optimizer.build(model.trainable_variables)
    dataset = tf.data.Dataset.range(100).shuffle(10, seed=1)
    return {
        "model": model,
        "optimizer": keras.mixed_precision.LossScaleOptimizer(optimizer),
        "step": tf.Variable(0, dtype=tf.int64),
        "iterator": iter(dataset),
    }


def test_training_goes_on_where_it_was(tmp_path):
    saved = parts()
    saved["step"].assign(5)
    for variable in saved["optimizer"].variables + saved["model"].variables:
        variable.assign_add(tf.ones_like(variable))
    for _ in range(5):
        next(saved["iterator"])
    write_checkpoint(tmp_path, 5, **saved)
    expected = [int(next(saved["iterator"])) for _ in range(20)]

    restored = parts()
    read_checkpoint(tmp_path, 5, **restored)
    assert checkpoint_parts(tmp_path, 5) == restored.keys()
    assert int(restored["step"]) == 5
    assert [int(next(restored["iterator"])) for _ in range(20)] == expected
    for name in ("optimizer", "model"):
        for one, other in zip(saved[name].variables, restored[name].variables, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    saved = parts()
    write_checkpoint(tmp_path, 1, **saved)
    before = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    with no_file_beyond(10_000), pytest.raises(OSError) as caught:
        write_checkpoint(tmp_path, 2, **saved)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(tmp_path / "checkpoints" / "ckpt-2")
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == before
    read_checkpoint(tmp_path, 1, **parts())


def test_load_takes_the_model_out_of_a_training_checkpoint(tmp_path):
    saved = parts()
    saved["model"].compile(keras.optimizers.Adam())  # Keras hangs its optimizer on the model
    saved["model"].optimizer.build(saved["model"].trainable_variables)
    albert_tf.save(saved["model"], tmp_path / "run", step=0)
    write_checkpoint(tmp_path / "run", 1, **saved)
    for step in (0, 1):
        model = albert_tf.load(tmp_path / "run", step)
        np.testing.assert_equal(model.get_weights(), saved["model"].get_weights())


def test_a_part_that_was_not_saved(tmp_path):
    write_checkpoint(tmp_path, 0, step=tf.Variable(0))
    with pytest.raises(ValueError, match=r"ckpt-0\.index holds no scale"):
        read_checkpoint(tmp_path, 0, step=tf.Variable(0), scale=tf.Variable(1.0))


def test_steps_by_their_index_alone(tmp_path):
    assert checkpoint_steps(tmp_path) == []
    for step in (100, 20, 3):
        write_checkpoint(tmp_path, step, step=tf.Variable(step))
    # What a process that was killed leaves: data without an index, and a folder of its own.
    (tmp_path / "checkpoints" / "ckpt-200.data-00000-of-00001").write_bytes(b"half")
    (tmp_path / "checkpoints" / ".ckpt-300.writing").mkdir()
    (tmp_path / "checkpoints" / ".ckpt-300.writing" / "ckpt-300.index").write_bytes(b"half")
    assert checkpoint_steps(tmp_path) == [3, 20, 100]
    for step in (200, 300):
        write_checkpoint(tmp_path, step, step=tf.Variable(step))
        restored = tf.Variable(0)
        read_checkpoint(tmp_path, step, step=restored)
        assert int(restored) == step
    delete_checkpoint(tmp_path, 100)
    assert checkpoint_steps(tmp_path) == [3, 20, 200, 300]
    assert not [path.name for path in (tmp_path / "checkpoints").iterdir() if "100" in path.name]


def test_the_disk_has_a_checkpoint_before_it_has_its_name(tmp_path, monkeypatch):
    """And the name before the next step is taken, which may be the deletion of an older one."""
    events, sync, rename = [], filesystem.sync, tf.io.gfile.rename

    def recorded_sync(path):
        events.append(("sync", path.name))
        sync(path)

    def recorded_rename(path, target, overwrite):
        events.append(("name", Path(target).name))
        return rename(path, target, overwrite)

    monkeypatch.setattr(filesystem, "sync", recorded_sync)
    monkeypatch.setattr(tf.io.gfile, "rename", recorded_rename)
    write_checkpoint(tmp_path, 1, step=tf.Variable(1))
    files = ("ckpt-1.data-00000-of-00001", "ckpt-1.index")
    assert events == [
        *(("sync", name) for name in files),
        *(("name", name) for name in files),
        ("sync", "checkpoints"),
    ]


def test_what_does_not_fit_is_no_damage(tmp_path):
    write_checkpoint(tmp_path, 0, state=tf.train.Checkpoint(a=tf.Variable(0)))
    with pytest.raises(InputError, match=r"ckpt-0\.index is of another model") as caught:
        read_checkpoint(tmp_path, 0, state=tf.train.Checkpoint(a=tf.Variable(0), b=tf.Variable(1.0)))
    assert not isinstance(caught.value, DamagedCheckpoint)


def unread(path, number):
    """What TensorFlow raises where the system refuses to read a file; 2 is the code of an unknown error."""
    return tf.errors.OpError(None, None, f"{path}; {os.strerror(number)}", 2)


@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
def test_what_cannot_be_read_is_no_damage(part, tmp_path):
    """A folder stands for a file that may not be read: this process may read all."""
    write_checkpoint(tmp_path, 0, step=tf.Variable(0))
    file = tmp_path / "checkpoints" / f"ckpt-0.{part}"
    file.rename(tmp_path / "away")
    file.mkdir()
    with pytest.raises(OSError, match="cannot be read") as caught:
        read_checkpoint(tmp_path, 0, step=tf.Variable(0))
    assert (caught.value.errno, caught.value.filename) == (errno.EISDIR, str(file))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOSPC, errno.EMFILE, errno.ESTALE])
def test_an_error_of_the_system_is_no_damage(number, tmp_path, monkeypatch):
    write_checkpoint(tmp_path, 0, step=tf.Variable(0))
    data = tmp_path / "checkpoints" / "ckpt-0.data-00000-of-00001"
    monkeypatch.setattr(tf.train.Checkpoint, "read", mock.Mock(side_effect=unread(data, number)))
    with pytest.raises(OSError, match="cannot be read") as caught:
        read_checkpoint(tmp_path, 0, step=tf.Variable(0))
    assert (caught.value.errno, caught.value.filename) == (number, str(data))


@pytest.mark.parametrize(
    "error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "out of memory")]
)
def test_too_little_memory_is_no_damage(error, tmp_path, monkeypatch):
    write_checkpoint(tmp_path, 0, step=tf.Variable(0))
    monkeypatch.setattr(tf.train.Checkpoint, "read", mock.Mock(side_effect=error))
    with pytest.raises(OSError, match="cannot be read now"):
        read_checkpoint(tmp_path, 0, step=tf.Variable(0))


def test_lost_data_is_damage(tmp_path):
    write_checkpoint(tmp_path, 0, step=tf.Variable(0))
    (tmp_path / "checkpoints" / "ckpt-0.data-00000-of-00001").unlink()
    with pytest.raises(DamagedCheckpoint, match="No such file"):
        read_checkpoint(tmp_path, 0, step=tf.Variable(0))


@pytest.mark.parametrize("name", ["run [1]", "a*b?", "back\\slash", "[!x]", "]["])
def test_a_folder_is_no_glob(name, tmp_path, monkeypatch):
    """As TensorFlow's readers take it; also by a relative path, and where there are others like it."""
    monkeypatch.chdir(tmp_path)
    for folder, value in (("run 1", 3), ("axbx", 3), (name, 7)):
        write_checkpoint(folder, 0, step=tf.Variable(value))
    for folder in (name, tmp_path / name):
        restored = tf.Variable(0)
        read_checkpoint(folder, 0, step=restored)
        assert int(restored) == 7
    Path(name, "checkpoints", "ckpt-0.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(DamagedCheckpoint, match=re.escape(str(Path(name, "checkpoints", "ckpt-0.index")))):
        read_checkpoint(name, 0, step=restored)


def test_what_a_killed_process_left_goes_and_what_others_named_stays(tmp_path):
    folder = tmp_path / "checkpoints"
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step, step=tf.Variable(step))
    data = "data-00000-of-00001"
    (folder / "ckpt-1.index").unlink()  # its deletion was interrupted
    (folder / "ckpt-3.index").unlink()  # somebody's mistake
    (folder / f"ckpt-5.{data}").touch()  # its writing was interrupted
    (folder / ".ckpt-5.writing").mkdir()
    others = {f"{name}.{ending}" for name in ("ckpt-best", "ckpt-007") for ending in (data, "index")}
    for name in others:
        (folder / name).touch()
    assert checkpoint_steps(tmp_path) == [2]
    remove_unfinished_checkpoints(tmp_path)
    assert {path.name for path in folder.iterdir()} == {
        f"ckpt-2.{data}", "ckpt-2.index", f"ckpt-3.{data}", *others
    }  # fmt: skip


@pytest.fixture(scope="module")
def encoder():
    return albert_tf.AlbertEncoder(SMALL)


@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_damage_is_one_error_that_names_the_file(tmp_path, encoder, suffix, damage):
    albert_tf.save(encoder, tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / f"ckpt-0.{suffix}"
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        content[len(content) // 3] ^= 255
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
    with pytest.raises((ValueError, FileNotFoundError), match=r"checkpoints/ckpt-0\.index") as caught:
        albert_tf.load(tmp_path / "run", step=0)
    assert "\n" not in str(caught.value)
