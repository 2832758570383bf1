"""What `convert` does with files: where it finds them, what it refuses, what it leaves behind."""

import errno
import json
import shutil
import tarfile

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import RunDirectory
from benchmarks import convert_memory
from tests.albert_tf.conversion import tf1
from tests.albert_tf.pretraining.runs import weights
from tests.full_disk import no_file_beyond
from tests.tiny import TINY, change_json


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


@pytest.mark.parametrize("case", ["groups", "inner", "unshared"])
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


@pytest.mark.parametrize(("target", "packed"), [("google", True), ("huggingface", False)])
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
    back = RunDirectory(tmp_path / "back")
    assert back.vocabulary.read_bytes() == tiny_vocabulary.read_bytes()
    assert back.task == RunDirectory(run).task
    assert back.tokenizer == {"lowercase": True, "strip_accents": False}
    recipe = json.loads((tmp_path / "back" / "recipe.json").read_text())
    assert recipe["command"] == "albert-tf convert …" and recipe["converted_from"] == target


def test_a_vocabulary_that_remembers_how_text_is_normalised(run, tiny_vocabulary, tmp_path):
    """It says what a checkpoint does not, and contradicts a run."""
    cased = shutil.copyfile(tiny_vocabulary, tmp_path / "other.model")
    (tmp_path / "other.tokenizer.json").write_text('{"lowercase": false}')
    with pytest.raises(InputError, match=r"lowercase=True contradicts lowercase=False in .*other\.tokenizer"):
        convert("run", "google", run, tmp_path / "out", vocabulary=cased)
    assert not (tmp_path / "out").exists()
    convert("run", "google", run, tmp_path / "google")
    convert("google", "run", tmp_path / "google", tmp_path / "out", vocabulary=cased)
    assert RunDirectory(tmp_path / "out").tokenizer == {"lowercase": False, "strip_accents": True}


@pytest.mark.parametrize(
    ("target", "file", "config"),
    [
        ("google", "model.ckpt-best", "albert_config.json"),
        ("google", "model.ckpt-best.data-00000-of-00001", "albert_config.json"),
        ("huggingface", "model.safetensors", "config.json"),
    ],
)
def test_single_files(run, tmp_path, target, file, config):
    convert("run", target, run, tmp_path / "there")
    convert(target, "run", tmp_path / "there" / file, tmp_path / "1")
    elsewhere = (tmp_path / "there" / config).rename(tmp_path / "the config.json")
    with pytest.raises(FileNotFoundError, match=r"config.*\.json"):
        convert(target, "run", tmp_path / "there" / file, tmp_path / "2")
    convert(target, "run", tmp_path / "there" / file, tmp_path / "2", config=elsewhere)
    np.testing.assert_equal(weights(tmp_path / "2"), weights(tmp_path / "1"))


def test_everything_that_does_not_fit_is_in_one_error(google_folder, tmp_path, tiny_vocabulary):
    values = tf1.read(google_folder / "model.ckpt-best")
    values["bert/extra"] = values.pop("bert/pooler/dense/bias")
    values["cls/predictions/output_bias"] = values["cls/predictions/output_bias"][1:]
    tf1.write(google_folder / "model.ckpt-best", values)
    shutil.copyfile(tiny_vocabulary, google_folder / "30k-clean.model")
    with pytest.raises(InputError) as caught:
        convert("google", "run", google_folder, tmp_path / "run")
    for part in (
        "bert/pooler/dense/bias is missing",
        "bert/extra is unknown",
        "cls/predictions/output_bias is [119], the config says [120]",
        "30k-clean.model has 200 pieces, the config says vocab_size=120",
    ):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    (tmp_path / "no.model").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=r"no\.model is not a SentencePiece model"):
        convert("google", "run", google_folder, tmp_path / "run", vocabulary=tmp_path / "no.model")
    change_json(google_folder / "albert_config.json", vocab_size=10**12)
    with pytest.raises(InputError, match=r"\[1000000000000, "):  # before memory is taken
        convert("google", "run", google_folder, tmp_path / "run")
    assert {path.name for path in tmp_path.iterdir()} == {"google", "no.model"}


@pytest.mark.parametrize("directly", [False, True])
def test_pickles_are_refused(golden, tmp_path, directly):
    shutil.copy(golden / "hf" / "pretraining" / "config.json", tmp_path)
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(b"\x80\x02cos\nsystem\n.")
    with pytest.raises(InputError, match=r"pytorch_model\.bin is a pickle"):
        convert("huggingface", "run", path if directly else tmp_path, tmp_path / "run")


def test_files_that_are_missing_or_in_the_way(google_folder, run, tmp_path):
    with pytest.raises(FileExistsError, match="google exists already"):
        convert("google", "run", google_folder, google_folder)
    (tmp_path / "empty").mkdir()  # as a mount is
    convert("google", "run", google_folder, tmp_path / "empty")
    assert (tmp_path / "empty" / "config.json").exists()
    for source, target in (("google", "word2vec"), ("word2vec", "run"), ("run", "run"), ("google", "google")):
        with pytest.raises(InputError, match=f"from {source} to {target}"):
            convert(source, target, google_folder, tmp_path / "run")
    for what in ("vocabulary", "config"):
        with pytest.raises((InputError, FileNotFoundError), match=f"{tmp_path / 'nothing'}"):
            convert("google", "run", google_folder, tmp_path / "run", **{what: tmp_path / "nothing"})
    for source in ("google", "huggingface", "hub", "run"):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            convert(source, "google" if source == "run" else "run", tmp_path / "nowhere", tmp_path / "run")
    shutil.copy(google_folder / "model.ckpt-best.index", google_folder / "model.ckpt-2.index")
    with pytest.raises(InputError, match=r"model\.ckpt-2\.index, model\.ckpt-best\.index"):
        convert("google", "run", google_folder, tmp_path / "run")
    for arguments in ({"partial": True}, {"config": run / "config.json"}, {"revision": "main"}):
        with pytest.raises(InputError, match="converted whole"):
            convert("run", "google", run, tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


NARROW = TINY.replace(hidden_size=4, embedding_size=4, num_attention_heads=1, intermediate_size=4)


@pytest.mark.parametrize(
    ("target", "config", "named"),
    [
        ("google", TINY.replace(sharing="attention"), 'sharing="attention"'),
        ("google", TINY.replace(hidden_act="gelu_erf"), "hidden_act='gelu_erf'"),
        ("google", TINY.replace(layer_norm_eps=1e-5), "layer_norm_eps=1e-05"),
        ("huggingface", TINY.replace(sharing="ffn"), 'sharing="ffn"'),
        ("huggingface", TINY, "answerability=True"),
        # int(15 / 22 * 22) is 14, and int(9 / (18 / 14)) is 6.
        ("google", NARROW.replace(num_hidden_layers=22, num_hidden_groups=22), "num_hidden_groups=22"),
        ("huggingface", NARROW.replace(num_hidden_layers=18, num_hidden_groups=14), "num_hidden_groups=14"),
    ],
)
def test_networks_that_others_do_not_have(tmp_path, target, config, named):
    albert_tf.save(albert_tf.AlbertSpanLabeler(config, answerability="answer" in named), tmp_path / "run")
    with pytest.raises(InputError, match=named):
        convert("run", target, tmp_path / "run", tmp_path / "there")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("target", ["google", "huggingface"])
def test_a_table_of_embeddings_may_be_padded(target, tiny_vocabulary, tmp_path):
    """To a multiple of 128 at most."""
    for more in (127, 128):
        model = albert_tf.AlbertEncoder(TINY.replace(vocab_size=TINY.vocab_size + more))
        albert_tf.save(model, tmp_path / f"{more}", tiny_vocabulary)
    convert("run", target, tmp_path / "127", tmp_path / "there")
    convert(target, "run", tmp_path / "there", tmp_path / "back")
    np.testing.assert_equal(weights(tmp_path / "back"), weights(tmp_path / "127"))
    assert RunDirectory(tmp_path / "back").vocabulary.read_bytes() == tiny_vocabulary.read_bytes()
    with pytest.raises(InputError, match="vocab_size=328"):
        convert("run", target, tmp_path / "128", tmp_path / "no")


@pytest.mark.parametrize("source", ["google", "huggingface", "hub"])
def test_an_address_is_no_place_of_a_checkpoint(source, tmp_path):
    with pytest.raises(InputError, match="gs://bucket/albert"):
        convert(source, "run", "gs://bucket/albert", tmp_path / "run")


def test_a_run_on_another_filesystem(golden, tmp_path):
    for place in (str(tmp_path / "run"), "ram://converted/run"):
        convert("google", "run", golden / "tf1" / "shared", place)
    np.testing.assert_equal(weights("ram://converted/run"), weights(tmp_path / "run"))
    with pytest.raises(FileExistsError, match="ram://converted/run"):
        convert("google", "run", golden / "tf1" / "shared", "ram://converted/run")


def test_weights_that_are_not_finite_are_named_and_go_nowhere(run, tmp_path):
    model = albert_tf.load(run)
    for variable, value in ((model.variables[0], np.nan), (model.variables[-1], -np.inf)):
        variable.assign(np.where(np.arange(variable.shape[-1]) == 1, value, variable.numpy()))
    albert_tf.save(model, tmp_path / "run", step=9)
    with pytest.raises(InputError, match="embeddings/word_embeddings, cls/seq_relationship/output_bias"):
        convert("run", "google", tmp_path / "run", tmp_path / "there")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    albert_tf.save(albert_tf.load(run), tmp_path / "run", step=8)
    convert("run", "google", tmp_path / "run", tmp_path / "there", step=8)


@pytest.mark.parametrize("target", ["google", "huggingface", "run"])
def test_a_full_disk_leaves_nothing_and_is_told_with_the_folder(run, golden, tmp_path, target):
    conversion = ("run", target, run) if target != "run" else ("google", "run", golden / "tf1" / "shared")
    with pytest.raises(OSError) as caught, no_file_beyond(10_000):
        convert(*conversion, tmp_path / "there")
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "there"))
    assert list(tmp_path.iterdir()) == []


# Conversions of a checkpoint of the base model's true size: values and memory.


@pytest.mark.slow
def test_base_comes_back_bit_for_bit_and_takes_little_memory():
    """google → run → huggingface → run → google; the memory without what TensorFlow takes by itself."""
    rows = convert_memory.measure("albert_base_v2")  # ends the test where a bit differs
    # 11,683,584 parameters of the encoder and 130,226 of the two heads, 4 bytes each; the step, 8.
    assert {row["size"] for row in rows} == {4 * (11_683_584 + 130_226) + 8}
    assert len(rows) == 4 and all(row["net"] <= 2.5 * row["size"] for row in rows), rows
