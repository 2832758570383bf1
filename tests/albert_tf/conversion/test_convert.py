"""What `convert` does with files: where it finds them, what it refuses, what it leaves behind."""

import errno
import json
import shutil
import tarfile

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import RunDirectory
from albert_tf.conversion import convert
from albert_tf.tokenizer_settings import remember_settings
from tests.albert_tf.conversion import tf1
from tests.full_disk import no_file_beyond
from tests.tiny import TINY

CASES = ["shared", "groups", "inner", "unshared"]


@pytest.fixture
def folder(golden, tmp_path):
    """A copy of a recorded checkpoint, to be changed."""
    return shutil.copytree(golden / "tf1" / "shared", tmp_path / "google")


@pytest.fixture(scope="module")
def run(tiny_vocabulary, tmp_path_factory):
    """A run with a vocabulary, and weights of which none is zero."""
    rng = np.random.default_rng(0)
    model = albert_tf.AlbertPretrainer(TINY.replace(num_hidden_groups=3))
    for variable in model.variables:
        variable.assign(rng.normal(size=variable.shape))
    path = tmp_path_factory.mktemp("runs") / "run"
    albert_tf.save(model, path, tiny_vocabulary, tokenizer={"strip_accents": False})
    return path


def weights(run):
    return {variable.name: variable.numpy() for variable in albert_tf.load(run).variables}


@pytest.mark.parametrize("case", CASES)
def test_google_run_huggingface_run_google(golden, tmp_path, case):
    """Around the circle the weights come back bit for bit, and the config, too."""
    first = golden / "tf1" / case
    convert("google", "run", first, tmp_path / "1")
    convert("run", "huggingface", tmp_path / "1", tmp_path / "2")
    convert("huggingface", "run", tmp_path / "2", tmp_path / "3")
    convert("run", "google", tmp_path / "3", tmp_path / "4")
    before, after = tf1.read(first / "model.ckpt-best"), tf1.read(tmp_path / "4" / "model.ckpt-best")
    assert before.keys() - after.keys() == {name for name in before if name.endswith("lamb_m")}
    for name in after.keys() - {"global_step"}:
        np.testing.assert_array_equal(after[name], before[name])
    configs = [folder / "albert_config.json" for folder in (first, tmp_path / "4")]
    assert len({albert_tf.AlbertConfig.from_json_file(path) for path in configs}) == 1


@pytest.mark.parametrize("target", ["google", "huggingface"])
@pytest.mark.parametrize("packed", [False, True])
def test_there_and_back_with_vocabulary(run, tmp_path, tiny_vocabulary, target, packed):
    there = tmp_path / "there"
    convert("run", target, run, there)
    name = {"google": "30k-clean.model", "huggingface": "spiece.model"}[target]
    assert (there / name).read_bytes() == tiny_vocabulary.read_bytes()
    if packed:
        with tarfile.open(tmp_path / "there.tar.gz", "w:gz") as archive:
            archive.add(there, "albert_tiny")
        there = tmp_path / "there.tar.gz"
    convert(target, "run", there, tmp_path / "back", command="albert-tf convert …")
    np.testing.assert_equal(weights(tmp_path / "back"), weights(run))
    assert RunDirectory(tmp_path / "back").vocabulary.read_bytes() == tiny_vocabulary.read_bytes()
    assert RunDirectory(tmp_path / "back").task == RunDirectory(run).task
    assert RunDirectory(tmp_path / "back").tokenizer == {"lowercase": True, "strip_accents": False}
    recipe = json.loads((tmp_path / "back" / "recipe.json").read_text())
    assert recipe["command"] == "albert-tf convert …" and recipe["converted_from"] == target


@pytest.fixture
def cased_vocabulary(tiny_vocabulary, tmp_path):
    """One that remembers that case was kept."""
    path = shutil.copyfile(tiny_vocabulary, tmp_path / "other.model")
    remember_settings(path, {"lowercase": False})
    return path


@pytest.mark.parametrize("target", ["google", "huggingface"])
def test_a_vocabulary_that_contradicts_the_run(run, cased_vocabulary, tmp_path, target):
    with pytest.raises(ValueError, match=r"lowercase=True contradicts lowercase=False in .*other\.tokenizer"):
        convert("run", target, run, tmp_path / "out", vocabulary=cased_vocabulary)
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_says_what_the_checkpoint_does_not(run, cased_vocabulary, tmp_path):
    convert("run", "google", run, tmp_path / "google")
    convert("google", "run", tmp_path / "google", tmp_path / "out", vocabulary=cased_vocabulary)
    assert RunDirectory(tmp_path / "out").tokenizer == {"lowercase": False, "strip_accents": True}


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("google", "model.ckpt-best"),
        ("google", "model.ckpt-best.index"),
        ("google", "model.ckpt-best.data-00000-of-00001"),
        ("huggingface", "model.safetensors"),
    ],
)
def test_single_files(run, tmp_path, target, file):
    convert("run", target, run, tmp_path / "there")
    (config,) = (
        (tmp_path / "there").glob("*config.json")
        if target == "google"
        else [tmp_path / "there" / "config.json"]
    )
    convert(target, "run", tmp_path / "there" / file, tmp_path / "1")
    elsewhere = config.rename(tmp_path / "the config.json")
    with pytest.raises(FileNotFoundError, match=r"holds no .*config.*\.json"):
        convert(target, "run", tmp_path / "there" / file, tmp_path / "2")
    convert(target, "run", tmp_path / "there" / file, tmp_path / "2", config=elsewhere)
    np.testing.assert_equal(weights(tmp_path / "2"), weights(tmp_path / "1"))


@pytest.mark.parametrize("source", ["google", "huggingface"])
def test_vocabulary_of_another_size(golden, tmp_path, tiny_vocabulary, source):
    folder = golden / {"google": "tf1/shared", "huggingface": "hf/pretraining"}[source]
    with pytest.raises(ValueError, match=r"spiece\.model has 200 pieces, the config says vocab_size="):
        convert(source, "run", folder, tmp_path / "run", vocabulary=tiny_vocabulary)
    (tmp_path / "no.model").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"no\.model is not a SentencePiece model"):
        convert(source, "run", folder, tmp_path / "run", vocabulary=tmp_path / "no.model")
    assert [path.name for path in tmp_path.iterdir()] == ["no.model"]


def test_everything_that_does_not_fit_is_in_one_error(folder, tmp_path, tiny_vocabulary):
    values = tf1.read(folder / "model.ckpt-best")
    values["bert/extra"] = values.pop("bert/pooler/dense/bias")
    values["cls/predictions/output_bias"] = values["cls/predictions/output_bias"][1:]
    tf1.write(folder / "model.ckpt-best", values)
    shutil.copyfile(tiny_vocabulary, folder / "30k-clean.model")
    with pytest.raises(ValueError) as caught:
        convert("google", "run", folder, tmp_path / "run")
    for part in (
        "bert/pooler/dense/bias is missing",
        "bert/extra is unknown",
        "cls/predictions/output_bias is [119], the config says [120]",
        "30k-clean.model has 200 pieces, the config says vocab_size=120",
    ):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["google"]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "albert.pth"])
@pytest.mark.parametrize("directly", [False, True])
def test_pickles_are_refused(golden, tmp_path, name, directly):
    shutil.copy(golden / "hf" / "pretraining" / "config.json", tmp_path)
    (tmp_path / name).write_bytes(b"\x80\x02cos\nsystem\n.")
    with pytest.raises(ValueError, match=rf"{name} is a pickle: .* runs whatever code .*save_pretrained"):
        convert("huggingface", "run", tmp_path / name if directly else tmp_path, tmp_path / "run")


def test_files_that_are_missing_or_in_the_way(folder, tmp_path):
    with pytest.raises(FileExistsError, match="google exists already"):
        convert("google", "run", folder, folder)
    (tmp_path / "empty").mkdir()  # as a mount is
    convert("google", "run", folder, tmp_path / "empty")
    assert (tmp_path / "empty" / "config.json").exists()
    for source, target in (("google", "word2vec"), ("word2vec", "run"), ("run", "run"), ("google", "google")):
        with pytest.raises(
            ValueError, match=f"no conversion from {source} to {target}: there are google to run"
        ):
            convert(source, target, folder, tmp_path / "run")
    for what in ("vocabulary", "config"):
        with pytest.raises(FileNotFoundError, match=rf"nothing is not a file: the {what} is missing"):
            convert("google", "run", folder, tmp_path / "run", **{what: tmp_path / "nothing"})
    for source in ("google", "huggingface", "hub", "run"):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            convert(source, "google" if source == "run" else "run", tmp_path / "nowhere", tmp_path / "run")
    with pytest.raises(FileNotFoundError, match=r"model\.ckpt-1\.index is missing"):
        convert("google", "run", folder / "model.ckpt-1", tmp_path / "run")
    shutil.copy(folder / "model.ckpt-best.index", folder / "model.ckpt-2.index")
    with pytest.raises(
        ValueError, match=r"several .* name one of model\.ckpt-2\.index, model\.ckpt-best\.index"
    ):
        convert("google", "run", folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_is_converted_whole(run, tmp_path):
    for arguments in ({"partial": True}, {"config": run / "config.json"}, {"revision": "main"}):
        with pytest.raises(ValueError, match="a run has a config and is converted whole"):
            convert("run", "google", run, tmp_path / "google", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_compared_before_memory_is_taken(folder, tmp_path):
    config = json.loads((folder / "albert_config.json").read_text())
    (folder / "albert_config.json").write_text(json.dumps({**config, "vocab_size": 10**12}))
    with pytest.raises(ValueError, match=r"word_embeddings is \[120, .*the config says \[1000000000000, "):
        convert("google", "run", folder, tmp_path / "run")


@pytest.mark.parametrize(
    ("target", "layers", "groups", "message"),
    [
        ("google", 22, 22, "layer 15 of 22 .* group 14"),
        ("huggingface", 18, 14, "layer 9 of 18 .* group 6"),
    ],
)
def test_groups_that_others_compute_with_an_error(tmp_path, target, layers, groups, message):
    """int(15 / 22 * 22) is 14, and int(9 / (18 / 14)) is 6."""
    small = TINY.replace(hidden_size=4, embedding_size=4, num_attention_heads=1, intermediate_size=4)
    config = small.replace(num_hidden_layers=layers, num_hidden_groups=groups)
    albert_tf.save(albert_tf.AlbertEncoder(config), tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        convert("run", target, tmp_path / "run", tmp_path / "there")


@pytest.mark.parametrize("target", ["google", "huggingface"])
def test_weights_that_are_not_finite_are_named_and_go_nowhere(run, tmp_path, target):
    model = albert_tf.load(run)
    for variable, value in ((model.variables[0], np.nan), (model.variables[-1], -np.inf)):
        variable.assign(np.where(np.arange(variable.shape[-1]) == 1, value, variable.numpy()))
    albert_tf.save(model, tmp_path / "run", step=9)
    with pytest.raises(
        ValueError, match="NaN or infinity in embeddings/word_embeddings, cls/seq_relationship/output_bias: "
    ):
        convert("run", target, tmp_path / "run", tmp_path / "there")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    albert_tf.save(albert_tf.load(run), tmp_path / "run", step=8)
    convert("run", target, tmp_path / "run", tmp_path / "there", step=8)


@pytest.mark.parametrize("target", ["google", "huggingface", "run"])
def test_a_full_disk_leaves_nothing_and_is_told_with_the_folder(run, golden, tmp_path, target):
    conversion = ("run", target, run) if target != "run" else ("google", "run", golden / "tf1" / "shared")
    with pytest.raises(OSError) as caught, no_file_beyond(10_000):
        convert(*conversion, tmp_path / "there")
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "there"))
    assert list(tmp_path.iterdir()) == []
