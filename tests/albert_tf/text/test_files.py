import pytest

from albert_tf.text.files import input_files


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "a.txt", "c.gz", "odd[1].txt"):
        (tmp_path / name).touch()
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
        "odd[1].txt",
    ]
    assert names(folder / "odd[1].txt") == ["odd[1].txt"]  # a file of that name, not a pattern


def test_what_is_not_there(folder):
    for inputs in (folder / "d.txt", str(folder / "*.text"), [folder / "a.txt", folder / "d.txt"]):
        with pytest.raises(FileNotFoundError, match=r"(d\.txt|\*\.text): no such file"):
            input_files(inputs)
    with pytest.raises(FileNotFoundError, match="no input files"):
        input_files([])
    with pytest.raises(IsADirectoryError, match="is a folder: name its files"):
        input_files(folder)
