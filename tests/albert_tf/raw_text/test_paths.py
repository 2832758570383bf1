import pytest

from albert_tf.raw_text.paths import input_files, matched_paths


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("b.txt", "a.txt", "c.gz", "odd[1].txt", "odd1.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_paths_globs_and_lists(folder):
    def names(inputs):
        return [path.rpartition("/")[2] for path in input_files(inputs)]

    assert names(folder / "b.txt") == ["b.txt"]
    assert names(str(folder / "?.txt")) == ["a.txt", "b.txt"]
    assert names([folder / "c.gz", str(folder / "*.txt"), folder / "a.txt"]) == [
        "c.gz",
        "a.txt",
        "b.txt",
        "odd1.txt",
        "odd[1].txt",
    ]
    assert names(folder / "odd[1].txt") == ["odd[1].txt"]  # a file of that name, not a pattern
    (folder / "odd[1].txt").unlink()
    assert names(folder / "odd[1].txt") == ["odd1.txt"]


def test_globs_without_a_folder(folder):
    assert input_files(["a.txt", "?.txt", "odd[1]*"]) == ["a.txt", "b.txt", "odd1.txt"]
    assert input_files("./?.txt") == ["./a.txt", "./b.txt"]


def test_what_is_not_there(folder):
    for inputs in (folder / "d.txt", str(folder / "*.text"), [folder / "a.txt", folder / "d.txt"]):
        with pytest.raises(FileNotFoundError, match=r"(d\.txt|\*\.text): no such file"):
            input_files(inputs)
    with pytest.raises(FileNotFoundError, match="no input files"):
        input_files([])
    with pytest.raises(IsADirectoryError, match="is a folder: name its files"):
        input_files(folder)


def test_folders_are_matched_too(folder):
    for name in ("part-1", "part-2"):
        (folder / name).mkdir()
    assert matched_paths(["part-*", "a.txt"]) == ["part-1", "part-2", "a.txt"]
    with pytest.raises(IsADirectoryError, match="part-1 is a folder"):
        input_files("part-*")
