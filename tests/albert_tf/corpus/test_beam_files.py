import pytest
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem

from albert_tf.corpus.beam_files import open_file, sized_files


class Attic(LocalFileSystem):
    """A file system that Beam knows and TensorFlow does not: attic://tmp/text.txt is /tmp/text.txt."""

    @classmethod
    def scheme(cls):
        """What its paths begin with."""
        return "attic"

    def _list(self, prefix):
        for file in super()._list(local(prefix)):
            yield FileMetadata(f"attic:/{file.path}", file.size_in_bytes)

    def exists(self, path):
        """Whether it is there."""
        return super().exists(local(path))

    def metadata(self, path):
        """Its size."""
        return super().metadata(local(path))

    def open(self, path, *arguments, **options):
        """Its content."""
        return super().open(local(path), *arguments, **options)


def local(path):
    return path.removeprefix("attic:/")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("fr1.txt", "fr[1].txt", "b.gz"):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("begin", ["", "./", "{}/", "file://{}/", "attic:/{}/"])
def test_one_rule_everywhere(folder, begin):
    begin = begin.format(folder)

    def found(*names):
        files = sized_files([begin + name for name in names])
        for path, size in files:
            assert size == len(path.rpartition("/")[2])
            with open_file(path) as file:
                assert file.read().decode() == path.rpartition("/")[2]
        assert all(path.startswith(begin) for path, _ in files)
        return [path.removeprefix(begin) for path, _ in files]

    assert found("fr[1].txt") == ["fr[1].txt"]  # not fr1.txt, which it matches as a glob
    assert found("fr*.txt") == ["fr1.txt", "fr[1].txt"]
    assert found("b.gz", "fr[1]*", "b.*") == ["b.gz", "fr1.txt"]
    with pytest.raises(FileNotFoundError, match=r"\*\.text: no such file, and nothing matches it as a glob"):
        found("*.text")


def test_folders_and_unknown_file_systems(folder):
    for path in (folder, f"attic:/{folder}"):
        with pytest.raises(IsADirectoryError, match="is a folder: name its files"):
            sized_files(path)
    with pytest.raises(ValueError, match=r"cellar://text\.txt: Unable to get filesystem"):
        sized_files("cellar://text.txt")
