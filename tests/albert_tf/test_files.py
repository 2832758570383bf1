"""Folders that appear whole: new ones, and empty ones that must stay what they are."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf.files import check_place, new_directory, write_file, writing
from tests.full_disk import no_file_beyond


def fill(folder):
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("content")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_folder_is_not_there_before_it_is_whole(tmp_path):
    with new_directory(tmp_path / "a" / "new") as folder:
        fill(folder)
        assert not (tmp_path / "a" / "new").exists()
    assert names(tmp_path / "a") == ["new"] and names(tmp_path / "a" / "new") == ["inner"]


@pytest.mark.parametrize("kind", ["folder", "link", "with leftovers"])
def test_an_empty_folder_is_kept(tmp_path, kind):
    """As a mount has to be: it cannot be replaced by another folder."""
    (tmp_path / "there").mkdir()
    path = tmp_path / "there"
    if kind == "link":
        path = tmp_path / "link"
        path.symlink_to(tmp_path / "there")
    if kind == "with leftovers":  # of a process that was killed
        (path / ".there.writing-0").mkdir()
    number = path.stat().st_ino
    with new_directory(path) as folder:
        fill(folder)
        assert "inner" not in names(path)
    assert path.stat().st_ino == number
    assert (path / "inner" / "file").read_text() == "content"
    assert [name for name in names(path) if not name.endswith("-0")] == ["inner"]


def killed(folder, code):
    """What a process leaves that is killed in the middle of this, and of no other."""
    code = f"import os\nfrom pathlib import Path\nfrom albert_tf.files import *\n{code}"
    done = subprocess.run([sys.executable, "-c", f"{code} os.kill(os.getpid(), 9)"], cwd=folder, check=False)
    assert done.returncode == -9
    return names(folder)


def test_what_a_killed_process_has_left_goes_at_the_next_start(tmp_path):
    (left,) = killed(tmp_path, "with whole_file(Path('file')) as path: path.write_text('half');")
    running = tmp_path / left.replace(left.rpartition("-")[2], str(os.getppid()))
    elsewhere = tmp_path / left.replace("writing-", "writing-elsewhere-")
    others = tmp_path / left.replace(".file.", ".file2.")
    for path in (running, elsewhere, others):
        path.touch()
    write_file(tmp_path / "file", "whole")
    assert names(tmp_path) == sorted(["file", running.name, elsewhere.name, others.name])


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_that_a_killed_process_has_left_goes_at_the_next_start(is_there, tmp_path):
    folder = tmp_path / "run"
    if is_there:
        folder.mkdir()
    killed(tmp_path, "with new_directory(Path('run')) as path: (path / 'inner').mkdir();")
    assert len(list(tmp_path.rglob(".run.writing-*"))) == 1
    with new_directory(folder) as new:
        fill(new)
    assert names(tmp_path) == ["run"] and names(folder) == ["inner"]


def test_places_where_nothing_can_be_written(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for is_folder in (False, True):
        check_place(tmp_path / "new" / "place", is_folder=is_folder)
        with pytest.raises(NotADirectoryError, match=r"cannot be written .*file is not a folder.*: .*place'"):
            check_place(file / "new" / "place", is_folder=is_folder)
    check_place(file, is_folder=False)
    check_place(tmp_path, is_folder=True)
    with pytest.raises(IsADirectoryError, match="is a folder: name a file"):
        check_place(tmp_path, is_folder=False)
    with pytest.raises(FileExistsError, match="file is not a folder: name another --output"):
        check_place(file, is_folder=True)


@pytest.mark.parametrize("empty", [False, True])
def test_an_error_leaves_nothing(tmp_path, empty):
    if empty:
        (tmp_path / "run").mkdir()
    with pytest.raises(RuntimeError), new_directory(tmp_path / "run") as folder:
        (folder / "file").touch()
        raise RuntimeError
    assert names(tmp_path) == (["run"] if empty else [])
    assert not empty or names(tmp_path / "run") == []


@pytest.mark.parametrize("kind", ["file", "full folder", "dangling link"])
def test_what_is_there_is_refused(tmp_path, kind):
    path = tmp_path / "run"
    if kind == "file":
        path.touch()
    elif kind == "full folder":
        path.mkdir()
        (path / "mine").touch()
    else:
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="run exists already: name another place"), new_directory(path):
        pass
    assert names(tmp_path) == ["run"]


def by_python(folder):
    (folder / "file").write_bytes(bytes(10_000))


def by_copying(folder):
    source = folder.parent / "source"
    source.write_bytes(bytes(4000))
    with no_file_beyond(3000):
        shutil.copyfile(source, folder / "file")


def by_tensorflow(folder):
    tf.io.write_file(str(folder / "file"), tf.constant(bytes(10_000)))


@pytest.mark.parametrize("write", [by_python, by_copying, by_tensorflow])
def test_a_full_disk_is_named_by_what_the_user_asked_for(write, tmp_path):
    with pytest.raises(OSError) as caught, no_file_beyond(5000), new_directory(tmp_path / "run") as folder:
        write(folder)
    assert caught.value.errno == errno.EFBIG
    assert str(caught.value) == f"[Errno 27] File too large: '{tmp_path / 'run'}'"
    assert [name for name in names(tmp_path) if name != "source"] == []


def test_a_device_without_space(tmp_path):
    with pytest.raises(OSError) as caught, writing(tmp_path / "file", tmp_path / ".file"):
        Path("/dev/full").write_text("more than nothing")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "file"))


def test_a_file_that_grows_beyond_the_disk_stays_as_it_was(tmp_path):
    write_file(tmp_path / "file", "before")
    with pytest.raises(OSError, match=r"File too large: '.*/file'"), no_file_beyond(5000):
        write_file(tmp_path / "file", "after" * 2000)
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "before"


ELSEWHERE = [
    FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/source"),
    FileExistsError("there is something there: name another place"),
    tf.errors.NotFoundError(None, None, "/source; No such file or directory"),
    tf.errors.InvalidArgumentError(None, None, "Expected size[0] in [0, 64], but got 65"),
]


@pytest.mark.parametrize("error", ELSEWHERE, ids=str)
def test_other_errors_stay_as_they_are(error, tmp_path):
    with pytest.raises(type(error)) as caught, writing(tmp_path / "file", tmp_path / ".file"):
        raise error
    assert caught.value is error
