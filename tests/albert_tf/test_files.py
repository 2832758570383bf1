"""Folders that appear whole: new ones, and empty ones that must stay what they are."""

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.io import (
    atomic_file,
    check_new_local_folder,
    check_output_path,
    check_path,
    new_local_folder,
    read_local_json,
    replace_folder,
    reraise_with_path,
    restore_folder,
)
from tests.full_disk import no_file_beyond


def write_file(path, content):
    with atomic_file(path) as temporary:
        temporary.write_text(content)


def fill(folder):
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("content")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["new", "folder", "link", "with leftovers"])
def test_a_folder_is_not_filled_before_it_is_whole_and_an_empty_one_is_kept(tmp_path, kind):
    """As a mount has to be: it cannot be replaced by another folder."""
    path = tmp_path / "a" / "there"
    if kind != "new":
        path.mkdir(parents=True)
    if kind == "link":
        path = tmp_path / "link"
        path.symlink_to(tmp_path / "a" / "there")
    if kind == "with leftovers":  # of a process that was killed
        (path / ".there.writing-0").mkdir()
    number = path.stat().st_ino if kind != "new" else None
    with new_local_folder(path) as folder:
        fill(folder)
        assert not (path / "inner").exists()
    assert number in (None, path.stat().st_ino)
    assert (path / "inner" / "file").read_text() == "content"
    assert [name for name in names(path) if not name.endswith("-0")] == ["inner"]


def test_a_link_to_a_file_is_followed(tmp_path):
    """Also one that leads nowhere yet, and to another folder."""
    (tmp_path / "other").mkdir()
    target, link = tmp_path / "other" / "target", tmp_path / "link"
    link.symlink_to("other/target")
    for content in ("new", "newer"):
        check_output_path(link, is_folder=False)
        write_file(link, content)
        assert link.is_symlink() and target.read_text() == content
    assert names(tmp_path / "other") == ["target"]
    for folder, content in (("one", "old"), ("two", "new")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text(content)
    (tmp_path / "folder").symlink_to("one")
    replace_folder(tmp_path / "two", tmp_path / "folder")
    assert (tmp_path / "folder").is_symlink()
    assert (tmp_path / "one" / "file").read_text() == "new"
    assert names(tmp_path) == ["folder", "link", "one", "other"]


def test_a_link_into_a_folder_that_is_missing_is_refused_before_the_work(tmp_path):
    (tmp_path / "link").symlink_to("missing/target")
    with pytest.raises(FileNotFoundError, match=r"link is a link to .*missing/target"):
        check_output_path(tmp_path / "link", is_folder=False)


def test_a_new_folder_may_be_below_a_link(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    monkeypatch.chdir(tmp_path / "folder")
    for path in (tmp_path / "link" / "new" / "file", Path("../new/file")):
        check_output_path(path, is_folder=False)


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_is_no_file_is_not_replaced(is_folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match=rf"pipe is not a {'folder' if is_folder else 'file'}"):
        check_output_path(tmp_path / "pipe", is_folder=is_folder)


@pytest.mark.parametrize("is_folder", [True, False])
def test_names_that_leave_no_room_are_refused(is_folder, tmp_path):
    for name in ("x" * 230, "字" * 80, "x" * 300, "y" * 300 + "/x", "/".join(["x" * 200] * 20)):
        with pytest.raises(OSError, match="220 at most") as caught:
            check_output_path(tmp_path / name, is_folder=is_folder)
        assert caught.value.errno == errno.ENAMETOOLONG
    longest = tmp_path / ("x" * 220)
    check_output_path(longest, is_folder=is_folder)
    if is_folder:
        with new_local_folder(longest) as folder:
            fill(folder)
    else:
        write_file(longest, "content")
    assert names(tmp_path) == [longest.name]


def test_a_place_that_cannot_be_written_is_named_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as caught:
        write_file(Path("missing") / "file", "content")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, "missing/file")


def run_code(folder, code):
    """The exit status of a process that does this in a folder."""
    imports = "import os, sys\nfrom pathlib import Path\n"
    imports += "from albert_tf import io as files\nfrom albert_tf.io import *"
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", f"{imports}\n{code}"]
    return subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def test_what_another_process_is_writing_stays(tmp_path):
    with atomic_file(tmp_path / "file") as theirs:
        theirs.write_text("half")
        assert run_code(tmp_path, "with atomic_file(Path('file')) as path: path.write_text('whole')") == 0
        assert theirs.read_text() == "half"
        assert (tmp_path / "file").read_text() == "whole"
    assert names(tmp_path) == ["file"]


def test_what_a_killed_process_has_left_is_named_and_goes_after_a_day(tmp_path, caplog):
    code = "with atomic_file(Path('file')) as path: path.mkdir(); os.kill(os.getpid(), 9)"
    assert run_code(tmp_path, code) == -9
    (left,) = tmp_path.iterdir()
    for days, goes in ((0.5, False), (1.5, True)):
        for path in (*left.iterdir(), left):
            os.utime(path, times=(time.time() - days * 86400,) * 2)
        write_file(tmp_path / "file", "whole")
        assert left.exists() != goes and str(left) in caplog.text
    assert names(tmp_path) == ["file"]


# Kills a process before each of its changes of the filesystem; what is behind the last one is its end.
KILL = """
def kill(event, arguments, left=[{count}]):
    if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "ctypes.dlsym"):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), 9)
sys.addaudithook(kill)
"""
REPLACE = "replace_folder(Path('new'), Path('target'))"


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_that_is_replaced_is_never_gone(exchange, tmp_path):
    without = "" if exchange else "files._exchange_names = lambda *names: False\n"
    statuses = []
    for count in range(20):
        place = tmp_path / str(count)
        for name in ("new", "target"):
            (place / name).mkdir(parents=True)
            for file in ("one", "two"):
                (place / name / file).write_text(name)
        statuses.append(run_code(place, without + KILL.format(count=count) + REPLACE))
        if not exchange:
            restore_folder(place / "target")
        contents = [(place / "target" / file).read_text() for file in ("one", "two")]
        assert contents in (["new"] * 2, ["target"] * 2)
        if statuses[-1] == 0:
            break
    assert statuses[-1] == 0 and statuses.count(-9) == len(statuses) - 1 >= 3
    assert contents == ["new"] * 2
    assert names(place) == ["target"]


def test_addresses_of_other_filesystems_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (Path("gs://bucket/run"), Path("s3://bucket")):
        for refuse in (
            check_new_local_folder,
            lambda path: check_output_path(path, is_folder=True),
            lambda path: new_local_folder(path).__enter__(),
        ):
            with pytest.raises(InputError, match=path.name):
                refuse(path)
    assert names(tmp_path) == []


def test_places_where_nothing_can_be_written(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for is_folder, there in ((False, file), (True, tmp_path)):
        check_output_path(tmp_path / "new" / "place", is_folder=is_folder)
        check_output_path(there, is_folder=is_folder)
        with pytest.raises(NotADirectoryError, match=r"file is not a folder"):
            check_output_path(file / "new" / "place", is_folder=is_folder)
    with pytest.raises(FileExistsError, match="is not a file"):
        check_output_path(tmp_path, is_folder=False)
    with pytest.raises(FileExistsError, match="is not a folder"):
        check_output_path(file, is_folder=True)


def test_an_error_leaves_nothing_and_what_is_there_is_refused(tmp_path):
    path = tmp_path / "run"
    for _ in range(2):
        with pytest.raises(RuntimeError), new_local_folder(path) as folder:
            (folder / "file").touch()
            raise RuntimeError
        assert not path.exists() or names(path) == []
        path.mkdir(exist_ok=True)
    (path / "mine").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for there in (path, path / "mine", tmp_path / "link"):
        with pytest.raises(FileExistsError, match=there.name), new_local_folder(there):
            pass
    assert names(tmp_path) == ["link", "run"]


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
    with pytest.raises(OSError) as caught, no_file_beyond(5000), new_local_folder(tmp_path / "run") as folder:
        write(folder)
    assert caught.value.errno == errno.EFBIG
    assert str(caught.value) == f"[Errno 27] File too large: '{tmp_path / 'run'}'"
    assert [name for name in names(tmp_path) if name != "source"] == []


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
]


@pytest.mark.parametrize("error", ELSEWHERE, ids=str)
def test_other_errors_stay_as_they_are(error, tmp_path):
    with pytest.raises(type(error)) as caught, reraise_with_path(tmp_path / "file", tmp_path / ".file"):
        raise error
    assert caught.value is error


def test_a_name_that_is_not_utf_8_is_told_before_the_work(tmp_path):
    path = Path(os.fsdecode(bytes(tmp_path) + b"/\xff"))
    with pytest.raises(InputError, match="UTF-8"):
        check_path(path, "run")
    with pytest.raises(InputError, match="UTF-8"):
        check_output_path(path, is_folder=True)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file whose reading fails")
def test_a_file_whose_reading_fails_is_named(tmp_path):
    (tmp_path / "task.json").symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match="cannot be read") as caught:
        read_local_json(tmp_path / "task.json")
    assert caught.value.filename == str(tmp_path / "task.json")


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_working_folder_that_is_gone_is_told(is_folder, tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(FileNotFoundError, match=r"^out: the working folder is gone"):
        check_output_path(Path("out"), is_folder=is_folder)


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_folder_that_is_read_only_is_told_before_the_work(is_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    (tmp_path / "there").write_text("")
    for name in ("new", "new/er") if is_folder else ("new", "there"):
        with pytest.raises(PermissionError, match=f"{tmp_path} is read-only"):
            check_output_path(tmp_path / name, is_folder=is_folder)
