import collections
import gzip
import io
import json
import logging as python_logging
import os
import random
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

import albert_tf
from albert_tf import cli
from albert_tf.data import Share, held_out_shards
from albert_tf.data.prepared import decode_documents, read_stats, shard_name
from albert_tf.data.sources import find_inputs
from albert_tf.preprocessing import prepare as corpus
from albert_tf.preprocessing import reading, spills
from albert_tf.preprocessing.plan import PreparationFailed
from albert_tf.preprocessing.prepare import prepare
from albert_tf.preprocessing.settings import MAX_SHARDS
from albert_tf.utils.errors import InputError
from tests.tiny import CORPUS, DOCUMENTS

SIZE = {"batch_size": 8, "seq_length": 48}
SHORT = [f"the hat of {a}{b}{c}\nand a loaf" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh"]


def quiet(line):
    """Takes the lines about the progress."""


@pytest.fixture(scope="module")
def prepared(tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """The tiny corpus in two shards."""
    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    prepare(tiny_corpus, folder, tiny_vocabulary, shards=2, report=quiet)
    return folder


def documents(folder, pattern="*.tfrecord"):
    """The sentences of each document in a folder, in order, as tuples of token ids."""
    found = []
    for file in sorted(folder.glob(pattern)):
        for record in tf.data.TFRecordDataset(str(file)):
            block = decode_documents(record[tf.newaxis])
            assert block.sentences.numpy().tolist() == [len(block.sentence_lengths)]
            borders = np.cumsum(block.sentence_lengths)[:-1]
            found.append(tuple(map(tuple, np.split(block.tokens.numpy(), borders))))
    return found


def tokenized(texts, tokenizer):
    return [tuple(map(tuple, tokenizer(text).to_list())) for text in texts]


def content(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.tfrecord"))}


def test_documents_are_those_of_the_text(prepared, tiny_tokenizer):
    found = documents(prepared)
    assert sorted(found) == sorted(tokenized(DOCUMENTS, tiny_tokenizer))
    assert found != tokenized(DOCUMENTS, tiny_tokenizer)  # but in the order of their hashes


def test_stats(prepared, tiny_tokenizer):
    stats = read_stats(str(prepared))
    expected = tokenized(DOCUMENTS, tiny_tokenizer)
    assert stats["counts"] == {
        "documents_read": 8,
        "documents": 8,
        "sentences": sum(map(len, expected)),
        "tokens": sum(len(sentence) for document in expected for sentence in document),
        "dropped_duplicate": 0,
    }
    assert sum(shard["documents"] for shard in stats["shards"].values()) == 8
    assert stats["vocabulary"] == tiny_tokenizer.vocabulary.fingerprint
    assert {file.name for file in prepared.iterdir()} == {*stats["shards"], "stats.json"}


def test_globs_of_prepared_folders(prepared, tiny_tokenizer):
    found = find_inputs(f"{prepared.parent}/corp*", tiny_tokenizer.tokenize)
    assert found.files == sorted(map(str, prepared.glob("train-*")))


def test_progress_is_told(tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "_SECONDS_BETWEEN_REPORTS", 0.01)
    lines = []
    prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, shards=2, report=lines.append)
    told = [re.fullmatch(r"(\d) of 1 slices read, (\d) of 2 shards written", line) for line in lines[:-1]]
    assert told and all(told)
    counts = [(int(line[1]), int(line[2])) for line in told]
    assert counts == sorted(counts)


def test_batches_of_prepared_documents(prepared, tiny_vocabulary, tiny_corpus):
    """The same documents make the same examples, whether they are prepared or read from text."""

    def rows(inputs):
        dataset = albert_tf.pretraining_dataset(
            inputs,
            tiny_vocabulary,
            seq_length=1500,
            batch_size=4,
            short_seq_prob=0,
            repeat=False,
            sentence_objective="none",
        )
        ids = collections.Counter()
        for batch in dataset.as_numpy_iterator():
            word_ids = batch["input_word_ids"].copy()
            r, c = np.nonzero(batch["masked_lm_weights"])
            word_ids[r, batch["masked_lm_positions"][r, c]] = batch["masked_lm_ids"][r, c]
            ids.update(map(tuple, word_ids[batch["input_mask"].any(axis=1)].tolist()))
        return ids

    assert rows(prepared) == rows(tiny_corpus)
    assert rows([str(prepared / "train-*")]) == rows(tiny_corpus)


def test_saved_iterator_goes_on(prepared, tiny_vocabulary, tmp_path):
    iterator = iter(albert_tf.pretraining_dataset(prepared, tiny_vocabulary, **SIZE))
    for _ in range(7):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "ckpt"))
    expected = [next(iterator) for _ in range(7)]
    restored = iter(albert_tf.pretraining_dataset(prepared, tiny_vocabulary, **SIZE))
    tf.train.Checkpoint(iterator=restored).restore(path).assert_consumed()
    for batch in expected:
        found = next(restored)
        assert all((batch[name].numpy() == found[name].numpy()).all() for name in batch)


def test_content_does_not_depend_on_the_pieces(prepared, tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "SLICE_BYTES", 700)
    prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, shards=2, report=quiet)
    assert content(tmp_path / "out") == content(prepared)


def test_seed_decides_about_the_order(prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, shards=2, seed=1, report=quiet)
    assert sorted(documents(tmp_path / "out")) == sorted(documents(prepared))
    assert documents(tmp_path / "out") != documents(prepared)


def test_duplicates_are_whole_documents(tiny_vocabulary, tmp_path):
    begins, repeats = "a loaf of bread and the hat\n" * 10_000, "the hat and the loaf\n" * 10_000
    text = "\n".join([begins + "the end\n", begins + "another end\n", begins + "the end\n", repeats])
    (tmp_path / "text.txt").write_text(text)
    place = {"vocabulary": tiny_vocabulary, "shards": 2, "dedup": True, "report": quiet}
    counts = prepare(tmp_path / "text.txt", tmp_path / "out", **place)["counts"]
    # 280,000 and 210,000 bytes in parts of 131,072; what repeats the first document is its three parts.
    assert counts["documents_read"] == 4
    assert counts["dropped_duplicate"] == 3
    assert counts["documents"] == 3 + 3 + 2
    assert counts["sentences"] == 10_001 + 10_001 + 10_000


@pytest.fixture(scope="module")
def held_out(tiny_vocabulary, tmp_path_factory):
    """512 short documents, some of them twice, a fifth held out."""
    folder = tmp_path_factory.mktemp("held_out")
    (folder / "text.txt").write_text("\n\n".join(SHORT + SHORT[:50]))
    stats = prepare(
        folder / "text.txt",
        folder / "out",
        tiny_vocabulary,
        shards=2,
        eval_share=0.2,
        dedup=True,
        report=quiet,
    )
    return folder, stats


def test_duplicates_are_dropped(held_out):
    folder, stats = held_out
    assert stats["counts"]["documents_read"] == 562
    assert stats["counts"]["documents"] == 512
    assert stats["counts"]["dropped_duplicate"] == 50
    assert len(set(documents(folder / "out"))) == len(documents(folder / "out")) == 512


def test_held_out_share(held_out, tiny_vocabulary):
    folder, stats = held_out
    assert set(stats["shards"]) == {f"train-0000{i}-of-00002.tfrecord" for i in (0, 1)} | {
        "eval-00000-of-00001.tfrecord"
    }
    assert 70 < len(documents(folder / "out", "eval-*")) < 130

    def count(inputs, **options):
        dataset = albert_tf.pretraining_dataset(
            inputs,
            tiny_vocabulary,
            repeat=False,
            sentence_objective="none",
            short_seq_prob=0,
            **SIZE,
            **options,
        )
        return sum(int(batch["input_mask"][:, 0].sum()) for batch in dataset.as_numpy_iterator())

    train, held = (len(documents(folder / "out", f"{split}-*")) for split in ("train", "eval"))
    assert count(folder / "out") == train
    assert count(str(folder / "out" / "eval-*")) == held
    # A hash range means the same documents in text.
    shards = [str(folder / "out" / f"{split}-*") for split in ("train", "eval")]
    assert count(shards, share=Share("documents", 0.0, 0.2)) == held
    assert (
        count(shards, share=Share("documents", 0.2, 1.0))
        == count(folder / "out", share=Share("documents", 0.2, 1.0))
        == train
    )
    (folder / "once.txt").write_text("\n\n".join(SHORT))
    assert count(folder / "once.txt", share=Share("documents", 0.0, 0.2)) == held


def test_interrupted_and_started_again(prepared, tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch):
    written = []

    def interrupted(name, *arguments):
        if written:
            raise KeyError("the power went off")
        written.append(name)
        spills.write_shard(name, *arguments)

    def start(lines):
        prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, shards=2, report=lines.append)

    monkeypatch.setattr(corpus, "write_shard", interrupted)
    with pytest.raises(PreparationFailed, match=r"the power went off.*goes on from what is done"):
        start([])
    assert [file.name for file in (tmp_path / "out").glob("*.tfrecord")] == written
    assert content(tmp_path / "out")[written[0]] == content(prepared)[written[0]]
    with pytest.raises(FileNotFoundError, match=r"out has no stats\.json.*run the same command again"):
        albert_tf.pretraining_dataset(tmp_path / "out", tiny_vocabulary)

    monkeypatch.setattr(corpus, "write_shard", spills.write_shard)
    monkeypatch.setattr(corpus, "write_spill", None)  # the spills are there
    before = (tmp_path / "out" / written[0]).stat()
    start([])
    assert (tmp_path / "out" / written[0]).stat() == before
    assert content(tmp_path / "out") == content(prepared)

    monkeypatch.setattr(corpus, "write_shard", None)
    lines = []
    start(lines)
    assert lines == [f"{tmp_path / 'out'} is finished already, with these settings: nothing to do"]


def test_finished_with_other_settings(prepared, tiny_corpus, tiny_vocabulary):
    with pytest.raises(ValueError, match=r"corpus prepared with other settings: seed is 0 there and 7 here"):
        prepare(tiny_corpus, prepared, tiny_vocabulary, shards=2, seed=7, report=quiet)


def test_json_lines_on_the_command_line(tiny_vocabulary, tiny_tokenizer, tmp_path):
    lines = [json.dumps({"body": " ".join(document)}) for document in DOCUMENTS]
    (tmp_path / "text.jsonl.gz").write_bytes(gzip.compress("\n".join([*lines, "{"]).encode()))
    command = [
        "prepare",
        "--input",
        str(tmp_path / "*.gz"),
        "--input_format",
        "jsonl",
        "--text_field",
        "body",
    ]
    command += ["--vocabulary", str(tiny_vocabulary), "--output", str(tmp_path / "out"), "--shards", "1"]
    told = io.StringIO()
    handler = python_logging.StreamHandler(told)
    logging.get_absl_logger().addHandler(handler)
    try:
        assert cli.run([*command, "--runner=DirectRunner", "--verbosity=0"]) == 0
    finally:
        logging.get_absl_logger().removeHandler(handler)
    # One line ends in a semicolon's second half; all others are sentences for the rules as well.
    assert sorted(documents(tmp_path / "out")) == sorted(tokenized(DOCUMENTS, tiny_tokenizer))
    assert read_stats(str(tmp_path / "out"))["counts"]["dropped_invalid_json"] == 1
    assert "documents 8" in told.getvalue()


def test_examples(tiny_corpus, tiny_vocabulary, tmp_path):
    folder = tmp_path / "out"
    options = {"format": "examples", "seq_length": 48, "max_predictions": 9, "dupe_factor": 3}
    stats = prepare(tiny_corpus, folder, tiny_vocabulary, shards=1, report=quiet, **options)
    batches = list(
        albert_tf.pretraining_dataset(
            folder, tiny_vocabulary, max_predictions=9, repeat=False, **SIZE
        ).as_numpy_iterator()
    )
    rows = [tuple(row) for batch in batches for row in batch["input_word_ids"].tolist() if any(row)]
    assert len(rows) == stats["counts"]["examples"]
    assert len(set(rows)) > 0.95 * len(rows)  # other masks each time
    once = prepare(
        tiny_corpus,
        tmp_path / "once",
        tiny_vocabulary,
        shards=1,
        report=quiet,
        **{**options, "dupe_factor": 1},
    )
    assert 2.5 < len(rows) / once["counts"]["examples"] < 3.5
    with pytest.raises(ValueError, match="finished examples, which no share of documents"):
        albert_tf.pretraining_dataset(folder, tiny_vocabulary, share=Share("documents", 0.0, 0.1), **SIZE)


def test_another_vocabulary_or_normalisation(prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    from albert_tf.tokenizers import train_vocabulary

    train_vocabulary(tiny_corpus, tmp_path / "other.model", vocab_size=190)
    for inputs in (prepared, str(prepared / "train-*")):
        with pytest.raises(ValueError, match=r"stats\.json: prepared with another vocabulary .SHA-256"):
            albert_tf.pretraining_dataset(inputs, tmp_path / "other.model")
    with pytest.raises(ValueError, match=r"stats\.json: prepared with lowercase=True, not False"):
        albert_tf.pretraining_dataset(prepared, tiny_vocabulary, lowercase=False)


def test_a_missing_shard(prepared, tiny_vocabulary, tmp_path):
    for file in prepared.iterdir():
        if "00001-of" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(FileNotFoundError, match=r"train-00001-of-00002\.tfrecord is missing"):
        albert_tf.pretraining_dataset(tmp_path, tiny_vocabulary)


@pytest.mark.parametrize("cut_off", [True, False])
def test_a_damaged_shard(prepared, tiny_vocabulary, tmp_path, cut_off):
    """Cut off, or with a flipped bit, and no stats.json beside it that tells its size."""
    for file in prepared.glob("*.tfrecord"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = bytearray((tmp_path / "train-00001-of-00002.tfrecord").read_bytes())
    shard[len(shard) // 2] ^= not cut_off
    (tmp_path / "train-00001-of-00002.tfrecord").write_bytes(shard[:-3] if cut_off else shard)
    message = r"train-00001-of-00002\.tfrecord.*is damaged or cut off .*: make or copy it again"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(albert_tf.pretraining_dataset(f"{tmp_path}/*", tiny_vocabulary, repeat=False, **SIZE))


@pytest.mark.parametrize("kept", [0, 1])
def test_a_shard_cut_off_between_two_records(prepared, tiny_vocabulary, tmp_path, kept):
    for file in prepared.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = tmp_path / "train-00001-of-00002.tfrecord"
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(shard))]
    with tf.io.TFRecordWriter(str(shard)) as file:
        for record in records[:kept]:
            file.write(record)
    for inputs in (tmp_path, f"{tmp_path}/train-*"):
        with pytest.raises(ValueError, match=r"train-00001-of-00002\.tfrecord is damaged or cut off: it has"):
            albert_tf.pretraining_dataset(inputs, tiny_vocabulary)


def test_a_lost_shard_is_made_again(prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    for file in prepared.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "train-00001-of-00002.tfrecord").unlink()
    lines = []
    prepare(tiny_corpus, tmp_path, tiny_vocabulary, shards=2, report=lines.append)
    assert lines[0] == f"{tmp_path} was finished, but has lost shards since: starts over"
    assert content(tmp_path) == content(prepared)
    assert read_stats(str(tmp_path)) == read_stats(str(prepared))


@pytest.mark.parametrize("content", ["{}", "[]", "{", "\xff", "shards", "shard"])
def test_damaged_stats(content, prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    """Named in one error by whatever reads the folder, with what helps; and the advice does help."""
    for file in prepared.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    stats = read_stats(str(prepared))
    changed = {
        "shards": {"shards": {}},
        "shard": {"shards": {"train-00000-of-00001": 7}},
    }
    if content in changed:
        content = json.dumps({**stats, **changed[content]})
    (tmp_path / "stats.json").write_text(content, "latin-1")

    def make():
        return prepare(tiny_corpus, tmp_path, tiny_vocabulary, shards=2, report=quiet)

    for read in (
        lambda: albert_tf.pretraining_dataset(tmp_path, tiny_vocabulary),
        lambda: albert_tf.pretraining_dataset(str(tmp_path / "train-*"), tiny_vocabulary),
        lambda: held_out_shards(tmp_path),
        make,
    ):
        with pytest.raises(InputError, match=r"stats\.json is damaged, .* delete .* and type the command"):
            read()


def test_the_advice_about_damaged_stats_helps(prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "settings.json").write_text("{")
    with pytest.raises(InputError, match=rf"settings\.json is damaged: delete {tmp_path} and type"):
        prepare(tiny_corpus, tmp_path, tiny_vocabulary, shards=2, report=quiet)
    shutil.rmtree(tmp_path)
    prepare(tiny_corpus, tmp_path, tiny_vocabulary, shards=2, report=quiet)
    assert content(tmp_path) == content(prepared)
    assert read_stats(str(tmp_path)) == read_stats(str(prepared))


def test_the_text_in_the_output_folder_stays(tiny_corpus, tiny_vocabulary, tmp_path):
    text = shutil.copyfile(tiny_corpus, tmp_path / "train-a.txt")
    with pytest.raises(FileExistsError, match="name a folder of its own"):
        prepare(text, tmp_path, tiny_vocabulary, shards=1, report=quiet)
    assert text.read_bytes() == tiny_corpus.read_bytes()


def test_documents_and_examples_together(prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    prepare(
        tiny_corpus,
        tmp_path / "out",
        tiny_vocabulary,
        format="examples",
        seq_length=48,
        shards=1,
        report=quiet,
    )
    for inputs in ([prepared, tmp_path / "out"], [tmp_path / "out", prepared]):
        with pytest.raises(
            ValueError, match=r"holds documents and .* examples: read them one after the other"
        ):
            albert_tf.pretraining_dataset(inputs, tiny_vocabulary, **SIZE)


def test_bad_input(tiny_corpus, tiny_vocabulary, tmp_path):
    def start(inputs=tiny_corpus, **options):
        prepare(inputs, tmp_path / "out", tiny_vocabulary, report=quiet, **options)

    with pytest.raises(FileNotFoundError, match=r"\*\.nothing"):
        start(tmp_path / "*.nothing")
    with pytest.raises(FileNotFoundError):
        start([])
    for options in (
        {"shards": 0},
        {"shards": 100_000},
        {"eval_share": 1.5},
        {"eval_share": float("nan")},
        {"input_format": "xml"},
        {"format": "examples", "seq_length": 3},
        {"beam_options": ["--bogus=3"]},
        {"beam_options": ["--direct_num_workers=-4"]},
        {"beam_options": ["--direct_running_mode=foo"]},
        {"beam_options": ["--runner=Foo"]},
    ):
        with pytest.raises(InputError) as caught:
            start(**options)
        *_, given = options.values()
        assert str(given[0] if isinstance(given, list) else given).strip("-").split("=")[0] in str(
            caught.value
        )
    assert not (tmp_path / "out").exists()
    (tmp_path / "cut.gz").write_bytes(gzip.compress(CORPUS.encode())[:-9])
    with pytest.raises(PreparationFailed, match=r"cut\.gz is damaged or cut off"):
        start(tmp_path / "cut.gz")
    (tmp_path / "wide.txt").write_bytes(CORPUS.encode("utf-16"))
    with pytest.raises(ValueError, match=r"wide\.txt:1: "):
        start([tiny_corpus, tmp_path / "wide.txt"])
    (tmp_path / "text.jsonl").write_text(json.dumps({"text": CORPUS}) + "\n")
    for input_format in ("lines", "document_per_line"):
        with pytest.raises(
            ValueError, match=r"text\.jsonl holds JSON objects, one a line, .*--input_format jsonl"
        ):
            start(tmp_path / "text.jsonl", input_format=input_format)
    assert not (tmp_path / "out").exists()


def test_a_failure_leaves_no_folder_unless_there_is_something_to_go_on_from(tiny_vocabulary, tmp_path):
    noise = random.Random(0).choices("the hat and a loaf\n", k=1_000_000)
    (tmp_path / "cut.gz").write_bytes(gzip.compress("".join(noise).encode())[:-9])
    (tmp_path / "text.txt").write_text("the hat")

    def start(inputs):
        with pytest.raises(PreparationFailed, match=r"cut\.gz is damaged or cut off") as failure:
            prepare(inputs, tmp_path / "out", tiny_vocabulary, shards=1, report=quiet)
        return str(failure.value)

    assert "goes on" not in start(tmp_path / "cut.gz")
    assert not (tmp_path / "out").exists()
    assert "goes on" in start([tmp_path / "text.txt", tmp_path / "cut.gz"])
    assert (tmp_path / "out" / "unfinished" / "run-000000.json").exists()


def test_the_counts_of_a_long_document_add_up(tiny_vocabulary, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(["a loaf of bread and the hat"] * 10_000) + "\n\nthe hat\n")
    lines = []
    stats = prepare(tmp_path / "text.txt", tmp_path / "out", tiny_vocabulary, shards=1, report=lines.append)
    # 280,000 bytes in parts of 131,072: three of the one document, and the other.
    read = "documents_read 2, further_parts_of_long_documents 2, dropped_duplicate 0, documents 4, "
    assert lines[-1] == f"{read}sentences 10,001, tokens {stats['counts']['tokens']:,}"


def test_the_names_of_the_most_shards_have_the_same_length():
    last = shard_name("train", MAX_SHARDS - 1, MAX_SHARDS)
    assert len(last) == len(shard_name("train", 0, 1))
    assert len(shard_name("train", 0, MAX_SHARDS + 1)) > len(last)


@pytest.mark.parametrize("mode", ["in_memory", pytest.param("multi_processing", marks=pytest.mark.slow)])
def test_a_failure_is_one_line(mode, tiny_vocabulary, tmp_path):
    """In a process of its own, where Beam's log would be seen."""
    noise = random.Random(0).choices("the hat and a loaf\n", k=1_000_000)
    content = bytearray(gzip.compress("".join(noise).encode()))
    content[-8] ^= 1
    (tmp_path / "text.gz").write_bytes(content)
    command = [sys.executable, "-m", "albert_tf", "prepare", "--input", "text.gz", "--output", "a/b"]
    command += [f"--direct_running_mode={mode}", "--direct_num_workers=2"]
    done = subprocess.run(
        [*command, "--vocabulary", str(tiny_vocabulary)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if " slices read, " not in line]
    assert line.startswith("albert-tf prepare: text.gz is damaged or cut off (CRC check failed")
    assert line.endswith("rename it if it is not compressed")
    assert {path.name for path in tmp_path.rglob("*")} == {"text.gz", "a"}


@pytest.mark.parametrize(
    ("text", "input_format", "counts"),
    [
        ("", "lines", ""),
        (" \n\n", "document_per_line", ""),
        (
            '{"title": "x"}\n[1]\nA sentence.\n{"text": " "}\n',
            "jsonl",
            "dropped_invalid_json 1, dropped_without_text_field 2, dropped_empty 1",
        ),
    ],
)
def test_no_documents(text, input_format, counts, tiny_vocabulary, tmp_path):
    (tmp_path / "text.txt").write_text(text)
    with pytest.raises(PreparationFailed, match=rf"text\.txt.*{input_format}.*{counts}"):
        prepare(
            tmp_path / "text.txt",
            tmp_path / "out",
            tiny_vocabulary,
            report=quiet,
            input_format=input_format,
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_several_processes_write_the_same(prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    options = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, options, shards=2, report=quiet)
    assert content(tmp_path / "out") == content(prepared)


@pytest.fixture
def job_service(tmp_path):
    """The port of Beam's own job service, which takes serialised pipelines as a cluster's does."""
    port = tmp_path / "port"
    module = "apache_beam.runners.portability.local_job_service_main"
    server = subprocess.Popen(
        [sys.executable, "-m", module, "--port_file", str(port), "--staging_dir", str(tmp_path / "staging")]
    )
    try:
        deadline = time.monotonic() + 120
        while not port.exists():
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield port.read_text()
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.mark.slow
def test_portable_runner_writes_the_same(job_service, prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    options = [
        "--runner=PortableRunner",
        f"--job_endpoint=localhost:{job_service}",
        "--environment_type=LOOPBACK",
    ]
    prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, options, shards=2, report=quiet)
    assert content(tmp_path / "out") == content(prepared)


def test_a_share_that_no_document_comes_into_is_told(tiny_vocabulary, tmp_path):
    (tmp_path / "one.txt").write_text("Bread needs only four things.\nSalt slows the yeast down.\n")
    lines = []
    options = {"eval_share": 1e-6, "shards": 1, "report": lines.append}
    stats = prepare(tmp_path / "one.txt", tmp_path / "out", tiny_vocabulary, **options)
    assert stats["shards"]["eval-00000-of-00001.tfrecord"]["documents"] == 0
    assert lines[-1].startswith("--eval_share 1e-06 of 1 documents, by their hashes, is none")


def test_the_text_is_known_by_its_content(tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch):
    """Wherever it lies, and a change that keeps its size is seen."""
    text = tmp_path / "a.txt"
    shutil.copy(tiny_corpus, text)
    prepare(text, tmp_path / "out", tiny_vocabulary, shards=2, report=quiet)
    made = content(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    prepare("a.txt", "out", tiny_vocabulary, shards=2, report=quiet)
    assert content(tmp_path / "out") == made
    text.write_bytes(b"Q" + text.read_bytes()[1:])
    with pytest.raises(InputError, match=r"a\.txt has changed"):
        prepare(text, tmp_path / "out", tiny_vocabulary, shards=2, report=quiet)
    assert content(tmp_path / "out") == made
