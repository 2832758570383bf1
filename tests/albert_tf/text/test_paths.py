import errno

import pytest

from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.files import input_files, matched_paths
from albert_tf.text.tokenizer_config import read_vocabulary


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("b.txt", "a.txt", "c.gz", "odd[1].txt", "odd1.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_globs_and_lists(folder):
    def names(inputs):
        return [path.rpartition("/")[2] for path in input_files(inputs)]

    found = names([folder / "c.gz", str(folder / "*.txt"), folder / "a.txt"])
    assert found == ["c.gz", "a.txt", "b.txt", "odd1.txt", "odd[1].txt"]
    assert names(folder / "odd[1].txt") == ["odd[1].txt"]  # a file of that name, not a pattern
    (folder / "odd[1].txt").unlink()
    assert names(folder / "odd[1].txt") == ["odd1.txt"]
    assert input_files(["a.txt", "?.txt", "odd[1]*"]) == ["a.txt", "b.txt", "odd1.txt"]
    assert input_files("./?.txt") == ["./a.txt", "./b.txt"]


def test_what_is_not_there(folder):
    for inputs in (str(folder / "*.text"), [folder / "a.txt", folder / "d.text"]):
        with pytest.raises(FileNotFoundError, match=r"\.text: no such file"):
            input_files(inputs)
    with pytest.raises(FileNotFoundError, match="no input files"):
        input_files([])


def test_a_loop_of_links_is_there_and_cannot_be_read(folder):
    loop = folder / "loop"
    loop.symlink_to("loop")
    (folder / "lost").symlink_to("nowhere")
    for read in (matched_paths, RunDirectory(loop).__getattribute__, read_vocabulary):
        with pytest.raises(OSError, match="cannot be read") as error:
            read("task" if read not in (matched_paths, read_vocabulary) else loop)
        assert error.value.errno == errno.ELOOP
        assert str(error.value.filename).startswith(str(loop))
    with pytest.raises(FileNotFoundError, match="lost"):
        matched_paths("lost")


def test_folders_are_matched_and_are_no_files(folder):
    (folder / "part-1").mkdir()
    assert matched_paths(["part-*", "a.txt"]) == ["part-1", "a.txt"]
    with pytest.raises(IsADirectoryError, match="part-1 is a folder"):
        input_files("part-*")
