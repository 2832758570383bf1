import errno
import re
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints import RunDirectory
from albert_tf.conversion import convert
from albert_tf.startup import signals
from hub_export import export as export_module
from hub_export.__main__ import main
from hub_export.export import export
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


@pytest.fixture(scope="module")
def bare_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bare") / "run"
    albert_tf.save(albert_tf.AlbertEncoder(SMALL), folder)
    return folder


def test_export_replaces_whole_folders_and_keeps_the_vocabularys_case(small_run, tmp_path, capsys):
    for folder in ("encoder", "preprocessor"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "stale").touch()
    with pytest.raises(FileExistsError, match="preprocessor is not an exported module: name another"):
        export(small_run, tmp_path, seq_length=16, version=3)
    for folder in ("encoder", "preprocessor"):
        (tmp_path / folder / "saved_model.pb").touch()
    main(["--run", str(small_run), "--output", str(tmp_path), "--seq_length", "16", "--version", "3"])
    assert names(tmp_path) == ["README.md", "encoder", "preprocessor", "serving"]
    assert names(tmp_path / "serving") == ["3"]
    assert names(tmp_path / "encoder") == ["assets", "fingerprint.pb", "saved_model.pb", "variables"]
    assert "stale" not in names(tmp_path / "preprocessor")
    printed = capsys.readouterr().out.splitlines()
    assert printed == [str(tmp_path / name) for name in ("preprocessor", "encoder", "serving/3")]
    cased = tf.saved_model.load(str(tmp_path / "preprocessor")).tokenize(tf.constant(["The", "the", "thé"]))
    assert len({tuple(row) for row in cased.to_list()}) == 3
    assert not hasattr(tf.saved_model.load(str(tmp_path / "encoder")), "mlm")
    served = tf.saved_model.load(str(tmp_path / "serving/3"))
    assert sorted(served.signatures) == ["pair", "serving_default", "tokens"]
    with pytest.raises(FileExistsError, match=r"serving/3 exists already: .*another --version"):
        export(small_run, tmp_path, seq_length=16, version=3)


def test_an_exported_encoder_becomes_a_run_again(small_run, tmp_path):
    export(small_run, tmp_path, seq_length=16, check=False)
    convert("hub", "run", tmp_path / "encoder", tmp_path / "run")
    assert RunDirectory(tmp_path / "run").config == SMALL
    assert RunDirectory(tmp_path / "run").tokenizer == {"lowercase": False, "strip_accents": False}
    assert (
        RunDirectory(tmp_path / "run").vocabulary.read_bytes()
        == RunDirectory(small_run).vocabulary.read_bytes()
    )
    one, other = (albert_tf.load(run).variables for run in (tmp_path / "run", small_run))
    for variable, expected in zip(one, other, strict=True):
        np.testing.assert_array_equal(variable.numpy(), expected.numpy())


def test_a_run_without_vocabulary_gives_an_encoder_only(bare_run, tmp_path):
    with pytest.raises(ValueError, match=r"has no vocabulary: .*--encoder_only"):
        export(bare_run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    written = export(bare_run, tmp_path / "out", encoder_only=True, check=False)
    assert written == [tmp_path / "out/encoder"]
    assert names(tmp_path / "out") == ["README.md", "encoder"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_that_are_not_finite_are_named(small_run, tmp_path, dtype):
    model = albert_tf.load(small_run)
    model.variables[-1].assign(np.full(model.variables[-1].shape, np.nan))
    albert_tf.save(model, tmp_path / "run")
    message = "run: NaN or infinity in pooler/dense/bias: {}$"
    with pytest.raises(ValueError, match=message.format("there is not another checkpoint: train again")):
        export(tmp_path / "run", tmp_path / "out", encoder_only=True, dtype=dtype)
    for step in (3, 5):
        albert_tf.save(model, tmp_path / "run", step=step)
    for step, others in ((None, "0, 3"), (3, "0, 5")):
        with pytest.raises(ValueError, match=message.format(f"--step takes another, of {others}")):
            export(tmp_path / "run", tmp_path / "out", encoder_only=True, dtype=dtype, step=step)
    assert names(tmp_path) == ["run"]


def test_a_version_that_appears_meanwhile_stays(small_run, tmp_path, monkeypatch):
    def another_exports(folder, requests):
        (tmp_path / "serving/1").mkdir(parents=True)
        (tmp_path / "serving/1/held").touch()

    monkeypatch.setattr(export_module, "write_requests", another_exports)
    with pytest.raises(FileExistsError, match="serving/1 exists already: a server may hold it"):
        export(small_run, tmp_path, seq_length=16, check=False)
    assert names(tmp_path) == ["serving"]
    assert names(tmp_path / "serving/1") == ["held"]


def test_what_stands_where_versions_go_is_refused_at_once(small_run, tmp_path):
    (tmp_path / "serving").touch()
    with pytest.raises(FileExistsError, match="serving is not a folder: name another --output"):
        export(small_run, tmp_path, seq_length=16)
    with pytest.raises(FileExistsError, match="serving is not a folder: name another --output"):
        export(small_run, tmp_path / "serving", encoder_only=True)
    (tmp_path / "serving").unlink()
    (tmp_path / "serving").mkdir()
    (tmp_path / "serving/7").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="serving/7 exists already"):
        export(small_run, tmp_path, seq_length=16, version=7)
    assert names(tmp_path) == ["serving"]


def test_dtype_is_that_of_what_is_written(small_run, tmp_path):
    places = ["--run", str(small_run), "--output", str(tmp_path / "out")]
    flags = [*places, "--seq_length", "16", "--encoder_only", "--dtype", "bfloat16"]
    main(flags)
    reader = tf.train.load_checkpoint(str(tmp_path / "out/encoder/variables/variables"))
    dtypes = {dtype for name, dtype in reader.get_variable_to_dtype_map().items() if "VARIABLE_VALUE" in name}
    assert tf.bfloat16 in dtypes and tf.float32 not in dtypes


def test_a_failed_export_leaves_the_last_one_alone(small_run, tmp_path, monkeypatch):
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder/last").touch()
    (tmp_path / "encoder/saved_model.pb").touch()
    save = tf.saved_model.save

    def fail_at_the_encoder(module, folder, signatures=None):
        save(module, folder, signatures)
        if folder.endswith("encoder"):
            text = f"{folder}/variables/variables.data-00000-of-00001; No space left on device"
            raise tf.errors.ResourceExhaustedError(None, None, text)

    monkeypatch.setattr(tf.saved_model, "save", fail_at_the_encoder)
    with pytest.raises(OSError) as caught:
        export(small_run, tmp_path, seq_length=16)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path))
    assert names(tmp_path) == ["encoder"]
    assert names(tmp_path / "encoder") == ["last", "saved_model.pb"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seq_length", "65"], "seq_length=65 is more than max_position_embeddings=64"),
        (["--version", "0", "--seq_length", "16"], "version=0 must be at least 1"),
        (["--version", str(2**63), "--seq_length", "16"], f"version={2**63} must be at most {2**63 - 1}"),
        (["--seq_length", "2"], "seq_length=2 must be at least 3"),
        (["--run", "nowhere"], "nowhere"),
        (["--output", "/dev/null/modules", "--seq_length", "16"], "/dev/null"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, message, small_run, tmp_path, capsys):
    command = ["--run", str(small_run), "--output", str(tmp_path / "out"), *arguments]
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hub_export: ")
    assert message in line
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_larger_than_the_model_is_refused(small_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(small_run, run)
    config = albert_tf.AlbertConfig.from_json_file(run / "config.json")
    (run / "config.json").write_text(config.replace(vocab_size=199).to_json_string())
    with pytest.raises(ValueError, match="has 200 pieces, but the model has vocab_size=199"):
        export(run, tmp_path / "out", seq_length=16)


@pytest.mark.slow
def test_a_fault_that_the_check_finds_leaves_nothing(small_run, tmp_path, monkeypatch, capsys):
    save = export_module.signature_answers

    def lie(*arguments):
        return {name: 1 + array for name, array in save(*arguments).items()}

    monkeypatch.setattr(export_module, "signature_answers", lie)
    with pytest.raises(SystemExit) as stopped:
        main(["--run", str(small_run), "--output", str(tmp_path / "out"), "--seq_length", "16"])
    assert stopped.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(
        r"encoder, against the model in memory: serving_default/pooled_output/0 differs by 1", line
    )
    assert names(tmp_path / "out") == []


@pytest.mark.parametrize("size", [5_000, 200_000])  # nothing fits; the vocabulary alone does not
def test_a_full_disk_leaves_nothing_and_is_told_with_the_folder(small_run, tmp_path, size):
    with pytest.raises(OSError) as caught, no_file_beyond(size):
        export(small_run, tmp_path / "out", seq_length=16, encoder_only=True)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "out"))
    assert names(tmp_path / "out") == []


def test_sigterm_leaves_nothing(small_run, tmp_path, monkeypatch):
    def terminated(*arguments):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(export_module, "write_requests", terminated)
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        signals.end_in_order(143)
        with pytest.raises(SystemExit) as stopped:
            main(["--run", str(small_run), "--output", str(tmp_path / "out"), "--seq_length", "16"])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    assert stopped.value.code == 143
    assert names(tmp_path / "out") == []
