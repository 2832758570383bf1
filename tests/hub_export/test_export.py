import errno
import re
import signal

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import signals
from albert_tf.conversion.convert import convert
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import RunDirectory
from hub_export import export as export_module
from hub_export.__main__ import main
from hub_export.export import cast_model, export
from tests.albert_tf.commands import mistake
from tests.full_disk import no_file_beyond
from tests.tiny import TINY

SMALL = TINY.replace(num_hidden_layers=1)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def small_run(tiny_vocabulary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "run"
    tokenizer = {"lowercase": False, "strip_accents": False}
    albert_tf.save(albert_tf.AlbertEncoder(SMALL), folder, vocabulary=tiny_vocabulary, tokenizer=tokenizer)
    return folder


def test_a_run_is_not_exported_into_itself(small_run, capsys):
    before = names(small_run)
    line = mistake(capsys, "--run", small_run, "--output", f"{small_run}/", run=main)
    assert "is the run itself: name another folder" in line
    assert names(small_run) == before


@pytest.mark.slow
def test_export_replaces_whole_folders_and_becomes_a_run_again(small_run, tmp_path, capsys):
    for folder in ("encoder", "preprocessor"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "stale").touch()
        (tmp_path / folder / "saved_model.pb").touch()
    words = ["--run", str(small_run), "--output", str(tmp_path), "--seq_length", "16", "--version", "3"]
    main(words)
    assert names(tmp_path) == ["README.md", "encoder", "preprocessor", "serving"]
    assert names(tmp_path / "serving") == ["3"]
    assert names(tmp_path / "encoder") == ["assets", "fingerprint.pb", "saved_model.pb", "variables"]
    assert "stale" not in names(tmp_path / "preprocessor")
    printed = capsys.readouterr().out.splitlines()
    assert printed == [str(tmp_path / name) for name in ("preprocessor", "encoder", "serving/3")]
    cased = tf.saved_model.load(str(tmp_path / "preprocessor")).tokenize(tf.constant(["The", "the", "thé"]))
    assert len({tuple(row) for row in cased.to_list()}) == 3
    assert "serving/3 exists already" in mistake(capsys, *words, run=main)
    convert("hub", "run", tmp_path / "encoder", tmp_path / "run")
    again, first = RunDirectory(tmp_path / "run"), RunDirectory(small_run)
    assert (again.config, again.tokenizer) == (first.config, first.tokenizer)
    assert again.vocabulary.read_bytes() == first.vocabulary.read_bytes()
    np.testing.assert_equal(albert_tf.load(again).get_weights(), albert_tf.load(first).get_weights())


def test_a_run_without_vocabulary_gives_an_encoder_only(tmp_path):
    albert_tf.save(albert_tf.AlbertEncoder(SMALL), tmp_path / "run")
    with pytest.raises(ValueError, match=r"has no vocabulary: .*`encoder_only`"):
        export(tmp_path / "run", tmp_path / "out")
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such folder"):
        export(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    written = export(tmp_path / "run", tmp_path / "out", encoder_only=True, check=False)
    assert written == [tmp_path / "out/encoder"]
    assert names(tmp_path / "out") == ["README.md", "encoder"]


def test_weights_that_are_not_finite_are_named(small_run, tmp_path):
    model = albert_tf.load(small_run)
    model.variables[-1].assign(np.full(model.variables[-1].shape, np.nan))
    for step in (0, 3):
        albert_tf.save(model, tmp_path / "run", step=step)
    for dtype in ("float32", "bfloat16"):
        with pytest.raises(ValueError, match=r"NaN or infinity in pooler/dense/bias: .* 0$"):
            export(tmp_path / "run", tmp_path / "out", encoder_only=True, dtype=dtype)
    assert names(tmp_path) == ["run"]


@pytest.mark.parametrize("early_exit", [False, True])
def test_the_bias_of_a_regression_is_not_rounded_in_bfloat16(early_exit):
    model = albert_tf.AlbertClassifier(TINY, 1, early_exit=early_exit)
    biases = [variable for variable in model.variables if variable.name.endswith("output_bias:0")]
    for bias in biases:
        bias.assign(tf.fill(bias.shape, 1995.3))
    narrow, ids = cast_model(model, "bfloat16"), {"input_word_ids": tf.constant([[2, 8, 9, 3]])}
    for name, logits in model(ids).items():
        np.testing.assert_allclose(narrow(ids)[name], logits, atol=0.1, err_msg=name)
    wide = {variable.name for variable in narrow.variables if variable.dtype == tf.float32}
    assert wide == {bias.name for bias in biases}


def test_what_no_export_has_written_is_refused_at_once(small_run, tmp_path):
    places = {
        "serving": lambda path: path.touch(),
        "serving/7": lambda path: path.symlink_to(tmp_path / "nowhere"),
        "encoder": lambda path: path.mkdir(),
        "README.md": lambda path: path.write_text("# My project\n"),
        "notes.txt": lambda path: path.touch(),
    }
    for number, (place, make) in enumerate(places.items()):
        path = tmp_path / str(number) / place
        path.parent.mkdir(parents=True)
        make(path)
        with pytest.raises(FileExistsError, match=place):
            export(small_run, tmp_path / str(number), seq_length=16, version=7)
        assert [path.name for path in (tmp_path / str(number)).rglob("*")][-1] == path.name


def test_a_failed_export_leaves_the_last_one_alone(small_run, tmp_path, monkeypatch):
    export(small_run, tmp_path, encoder_only=True, check=False)
    (tmp_path / "encoder/last").touch()
    card = (tmp_path / "README.md").read_text()
    save = tf.saved_model.save

    def fail(module, folder, signatures=None):
        save(module, folder, signatures)
        text = f"{folder}/variables/variables.data-00000-of-00001; No space left on device"
        raise tf.errors.ResourceExhaustedError(None, None, text)

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError) as caught:
        export(small_run, tmp_path, encoder_only=True, license="mit")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path))
    assert names(tmp_path) == ["README.md", "encoder"]
    assert "last" in names(tmp_path / "encoder")
    assert (tmp_path / "README.md").read_text() == card


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seq_length", "65"], "seq_length=65"),
        (["--seq_length", "2"], "seq_length=2"),
        (["--encoder_only", "--seq_length", "-5"], "seq_length=-5"),
        (["--encoder_only", "--version", "0"], "version=0"),
        (["--run", "nowhere"], "nowhere"),
        (["--output", "/dev/null/modules", "--seq_length", "16"], "/dev/null"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, message, small_run, tmp_path, capsys):
    words = ["--run", small_run, "--output", tmp_path / "out", *arguments]
    assert message in mistake(capsys, *words, run=main)
    assert not (tmp_path / "out").exists()


def test_an_argument_in_an_error_is_named_as_its_flag(small_run, tmp_path, capsys):
    (tmp_path / "notes.txt").touch()
    line = mistake(capsys, "--run", small_run, "--output", tmp_path, "--encoder_only", run=main)
    assert "holds notes.txt and is not an export: name a new --output\n" in line
    assert names(tmp_path) == ["notes.txt"]


def test_a_fault_that_the_check_finds_leaves_nothing(small_run, tmp_path, monkeypatch, capsys):
    saved = export_module.save_module
    monkeypatch.setattr(
        export_module, "save_module", lambda *x: {name: 1 + array for name, array in saved(*x).items()}
    )
    words = ["--run", small_run, "--output", tmp_path / "out", "--encoder_only"]
    line = mistake(capsys, *words, run=main, status=1)
    assert "encoder, against the model in memory: call/default/0 differs by 1" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [5_000, 200_000])  # nothing fits; the vocabulary alone does not
def test_a_full_disk_leaves_nothing_and_is_told_with_the_folder(small_run, tmp_path, size):
    with pytest.raises(OSError) as caught, no_file_beyond(size):
        export(small_run, tmp_path / "out", encoder_only=True)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["a[1]", "back\\slash"])
def test_a_place_where_nobody_could_load_a_module_is_refused(small_run, tmp_path, name):
    """TensorFlow takes its path for a glob; by a relative path in such a folder it can be loaded."""
    with pytest.raises(InputError, match=re.escape(name)):
        export(small_run, tmp_path / name, encoder_only=True)
    assert names(tmp_path) == []


def test_sigterm_leaves_nothing(small_run, tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "check_module", lambda *_: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(signals, "GRACE_SECONDS", 60.0)  # of a clean-up on a busy machine
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        signals.raise_on_termination(143)
        with pytest.raises(SystemExit) as stopped:
            main(["--run", str(small_run), "--output", str(tmp_path / "out"), "--encoder_only"])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    assert stopped.value.code == 143
    assert not (tmp_path / "out").exists()
