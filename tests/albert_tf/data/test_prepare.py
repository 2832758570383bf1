import collections
import errno
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.data import prepare as corpus
from albert_tf.data import prepare_files
from albert_tf.data.documents import CorpusSplit
from albert_tf.data.prepare import prepare, runner_and_options
from albert_tf.data.prepare_plan import PreparationFailed
from albert_tf.data.prepared import decode_documents, read_stats
from albert_tf.data.sources import held_out_shards
from albert_tf.data.tfrecords import first_example, name_damaged_files, tfrecord_reader
from albert_tf.errors import InputError
from tests.albert_tf.commands import mistake
from tests.albert_tf.data.test_pretraining import original_ids
from tests.tiny import CORPUS, DOCUMENTS

SIZE = {"batch_size": 8, "seq_length": 48}
SHORT = [f"the hat of {a}{b}{c}\nand a loaf" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh"]


@pytest.fixture
def start(tiny_corpus, tiny_vocabulary, tmp_path):
    """Prepares text into the folder `out`, in two shards."""

    def prepared(inputs=tiny_corpus, output=tmp_path / "out", report=lambda line: None, **settings):
        return prepare(inputs, output, tiny_vocabulary, report=report, **{"shards": 2, **settings})

    return prepared


@pytest.fixture(scope="module")
def prepared(tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """The tiny corpus in two shards."""
    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    prepare(tiny_corpus, folder, tiny_vocabulary, shards=2, report=lambda line: None)
    return folder


EXAMPLES = {"format": "examples", "seq_length": 48, "max_predictions": 9}


@pytest.fixture(scope="module")
def examples(tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """Its examples in two shards, each made once."""
    folder = tmp_path_factory.mktemp("examples") / "corpus"
    prepare(
        tiny_corpus, folder, tiny_vocabulary, shards=2, dupe_factor=1, report=lambda line: None, **EXAMPLES
    )
    return folder


@pytest.fixture
def copied(prepared, tmp_path):
    """The same in the folder `out`, to be damaged."""
    return shutil.copytree(prepared, tmp_path / "out")


def documents(folder, pattern="*.tfrecord"):
    """The sentences of each document in a folder, in order, as tuples of token ids."""
    found = []
    for file in sorted(folder.glob(pattern)):
        for record in tf.data.TFRecordDataset(str(file)):
            block = decode_documents(record[tf.newaxis])
            sentences = np.split(block.tokens.numpy(), np.cumsum(block.sentence_lengths)[:-1])
            found.append(tuple(tuple(sentence.tolist()) for sentence in sentences))
    return found


def tokenized(texts, tokenizer):
    return [tuple(map(tuple, tokenizer(text).to_list())) for text in texts]


def content(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.tfrecord"))}


def test_documents_are_those_of_the_text(prepared, tiny_tokenizer):
    found, expected = documents(prepared), tokenized(DOCUMENTS, tiny_tokenizer)
    assert sorted(found) == sorted(expected)
    assert found != expected  # but in the order of their hashes
    stats = read_stats(str(prepared))
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


def test_batches_of_prepared_documents(prepared, tiny_vocabulary, tiny_corpus):
    """The same documents make the same examples, whether they are prepared or read from text."""

    def rows(inputs):
        options = {"seq_length": 1500, "batch_size": 4, "short_seq_prob": 0, "repeat": False}
        dataset = albert_tf.pretraining_dataset(inputs, tiny_vocabulary, sentence_objective="none", **options)
        ids = collections.Counter()
        for batch in dataset.as_numpy_iterator():
            ids.update(map(tuple, original_ids(batch)[batch["input_mask"].any(axis=1)].tolist()))
        return ids

    assert rows(f"{prepared.parent}/corp*") == rows(tiny_corpus)


def test_content_depends_on_the_seed_and_not_on_the_slices(prepared, start, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare_files, "SLICE_BYTES", 700)
    start()
    assert content(tmp_path / "out") == content(prepared)
    with pytest.raises(InputError, match="seed is 0 there and 7 here"):
        start(seed=7)
    start(output=tmp_path / "other", seed=7)
    assert sorted(documents(tmp_path / "other")) == sorted(documents(prepared))
    assert documents(tmp_path / "other") != documents(prepared)


def test_duplicates_are_whole_documents(start, tmp_path):
    begins, repeats = "a loaf of bread and the hat\n" * 10_000, "the hat and the loaf\n" * 10_000
    text = "\n".join([begins + "the end\n", begins + "another end\n", begins + "the end\n", repeats])
    (tmp_path / "text.txt").write_text(text)
    counts = start(tmp_path / "text.txt", dedup=True)["counts"]
    # 280,000 and 210,000 bytes in parts of 131,072; what repeats the first document is its three parts.
    assert counts["documents_read"] == 4
    assert counts["further_parts_of_long_documents"] == 2 + 2 + 2 + 1
    assert counts["dropped_duplicate"] == 3
    assert counts["documents"] == 3 + 3 + 2
    assert counts["sentences"] == 10_001 + 10_001 + 10_000


@pytest.mark.slow
def test_held_out_share_without_duplicates(start, tiny_vocabulary, tmp_path):
    """512 short documents, some of them twice, a fifth held out."""
    out, text = tmp_path / "out", tmp_path / "text.txt"
    text.write_text("\n\n".join(SHORT + SHORT[:50]))
    stats = start(text, eval_share=0.2, dedup=True)
    assert [stats["counts"][name] for name in ("documents_read", "documents", "dropped_duplicate")] == [
        562,
        512,
        50,
    ]
    assert len(set(documents(out))) == len(documents(out)) == 512
    train, held = (len(documents(out, f"{split}-0000*")) for split in ("train", "eval"))
    assert 70 < held < 130

    def count(inputs, **options):
        one_epoch = {"repeat": False, "sentence_objective": "none", "short_seq_prob": 0, **SIZE}
        dataset = albert_tf.pretraining_dataset(inputs, tiny_vocabulary, **one_epoch, **options)
        return sum(int(batch["input_mask"][:, 0].sum()) for batch in dataset.as_numpy_iterator())

    assert [path.rpartition("/")[2] for path in held_out_shards(out)] == ["eval-00000-of-00001.tfrecord"]
    # A hash range means the same documents in prepared shards and in text.
    assert count(str(out / "*.tfrecord"), share=CorpusSplit("documents", 0.2, 1.0)) == train
    text.write_text("\n\n".join(SHORT))
    assert count(text, share=CorpusSplit("documents", 0.0, 0.2)) == held


def test_of_two_at_once_the_second_is_refused(start, tmp_path, monkeypatch):
    """It would remove what the first has not finished."""
    run, refused = corpus._run_pipeline, []

    def twice(plan, *options):
        with pytest.raises(BlockingIOError, match="out is in use by another process"):
            start()
        refused.append(True)
        run(plan, *options)

    monkeypatch.setattr(corpus, "_run_pipeline", twice)
    start()
    assert refused and read_stats(str(tmp_path / "out"))["counts"]["documents"] == len(DOCUMENTS)


def test_examples_that_cannot_be_written_leave_nothing_behind(start, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(prepare_files, "encode_examples", full)
    with pytest.raises(PreparationFailed, match="No space left"):
        start(format="examples", seq_length=48, dupe_factor=1)
    left = {file.suffix for file in (tmp_path / "out").rglob("*") if file.is_file()}
    assert left <= {".json", ""}  # spills and what they hold


@pytest.mark.slow
def test_interrupted_and_started_again(examples, start, tiny_vocabulary, tmp_path, monkeypatch):
    out, write_examples, written = tmp_path / "out", prepare_files.write_examples, []

    def interrupted(path, name, plan):
        if written:
            raise KeyError("the power went off")
        written.append(name)
        return write_examples(path, name, plan)

    settings = {**EXAMPLES, "dupe_factor": 1}
    monkeypatch.setattr(prepare_files, "write_examples", interrupted)
    with pytest.raises(PreparationFailed, match=r"the power went off.*goes on from what is done"):
        start(**settings)
    (name,) = written
    assert content(out) == {name: content(examples)[name]}
    with pytest.raises(FileNotFoundError, match=r"out has no stats\.json"):
        albert_tf.pretraining_dataset(out, tiny_vocabulary)

    monkeypatch.setattr(prepare_files, "write_examples", write_examples)
    monkeypatch.setattr(prepare_files, "read_slice", None)  # the spills are there
    before = (out / name).stat()
    start(**settings)
    assert (out / name).stat() == before
    assert content(out) == content(examples)
    monkeypatch.setattr(corpus, "_run_pipeline", None)
    lines = []
    start(report=lines.append, **settings)
    assert len(lines) == 1 and "nothing to do" in lines[0]


def test_json_lines_on_the_command_line(tiny_vocabulary, tiny_tokenizer, tmp_path):
    lines = [json.dumps({"body": " ".join(document)}) for document in DOCUMENTS]
    (tmp_path / "text.jsonl.gz").write_bytes(gzip.compress("\n".join([*lines, "{"]).encode()))
    command = f"prepare --input {tmp_path}/*.gz --input_format jsonl --text_field body --vocabulary"
    options = f"--output {tmp_path}/out --shards 1 --runner=DirectRunner --verbosity=0"
    assert cli.run([*command.split(), str(tiny_vocabulary), *options.split()]) == 0
    # One line ends in a semicolon's second half; all others are sentences for the rules as well.
    assert sorted(documents(tmp_path / "out")) == sorted(tokenized(DOCUMENTS, tiny_tokenizer))
    assert read_stats(str(tmp_path / "out"))["counts"]["dropped_invalid_json"] == 1


@pytest.mark.slow
def test_examples(start, examples, prepared, tiny_vocabulary, tmp_path):
    folder, stats = tmp_path / "out", start(dupe_factor=3, **EXAMPLES)
    read = {"max_predictions": 9, "repeat": False, **SIZE}
    batches = list(albert_tf.pretraining_dataset(folder, tiny_vocabulary, **read).as_numpy_iterator())
    rows = [tuple(row) for batch in batches for row in batch["input_word_ids"].tolist() if any(row)]
    assert len(rows) == stats["counts"]["examples"]
    assert len(set(rows)) > 0.95 * len(rows)  # other masks each time
    assert 2.5 < len(rows) / read_stats(str(examples))["counts"]["examples"] < 3.5
    with pytest.raises(InputError, match="finished examples"):
        albert_tf.pretraining_dataset(
            folder, tiny_vocabulary, share=CorpusSplit("documents", 0.0, 0.1), **SIZE
        )
    with pytest.raises(InputError, match=r"documents and .*examples: read them one after the other"):
        albert_tf.pretraining_dataset([prepared, folder], tiny_vocabulary, **SIZE)


def test_another_vocabulary_or_normalisation(prepared, tiny_corpus, tiny_vocabulary, tmp_path):
    from albert_tf.text.vocabulary_training import train_vocabulary

    train_vocabulary(tiny_corpus, tmp_path / "other.model", vocab_size=190)
    for inputs in (prepared, str(prepared / "train-*")):
        with pytest.raises(InputError, match=r"stats\.json: prepared with vocabulary="):
            albert_tf.pretraining_dataset(inputs, tmp_path / "other.model")
    with pytest.raises(InputError, match=r"stats\.json: prepared with lowercase=True, not False"):
        albert_tf.pretraining_dataset(prepared, tiny_vocabulary, lowercase=False)


def test_shards_that_are_lost_or_cut_off_between_two_records(copied, prepared, start, tiny_vocabulary):
    shard = copied / "train-00001-of-00002.tfrecord"
    first = next(iter(tf.data.TFRecordDataset(str(shard)))).numpy()
    with tf.io.TFRecordWriter(str(shard)) as file:
        file.write(first)
    for inputs in (copied, f"{copied}/train-*"):
        with pytest.raises(InputError, match=rf"{shard.name} is damaged or cut off"):
            albert_tf.pretraining_dataset(inputs, tiny_vocabulary)
    shard.unlink()
    shard.mkdir()
    with pytest.raises(IsADirectoryError, match=rf"{shard.name} is a folder"):
        albert_tf.pretraining_dataset(copied, tiny_vocabulary)
    shard.rmdir()
    with pytest.raises(FileNotFoundError, match=rf"{shard.name} is missing"):
        albert_tf.pretraining_dataset(copied, tiny_vocabulary)
    start()
    assert content(copied) == content(prepared)
    assert read_stats(str(copied)) == read_stats(str(prepared))


@pytest.mark.parametrize(
    "damage",
    [
        b"[]",
        b"\xff",
        {"shards": {"train-00000-of-00001": 7}},
        {"shards": {"../train-00000-of-00001.tfrecord": {}}},
        {"shards": {"train-00000-of-00001.tfrecord": {"bytes": "7"}}},
        {"shards": ["train-00000-of-00001.tfrecord"]},
        {"vocabulary": None},
        {"settings": []},
        {"lowercase": "yes"},
    ],
)
def test_damaged_stats(damage, copied, prepared, start, tiny_vocabulary):
    """Named in one error by whatever reads the folder, with what helps; and the advice does help."""
    if isinstance(damage, dict):
        damage = json.dumps({**read_stats(str(prepared)), **damage}).encode()
    (copied / "stats.json").write_bytes(damage)
    for read in (
        lambda: albert_tf.pretraining_dataset(str(copied / "train-*"), tiny_vocabulary),
        lambda: held_out_shards(copied),
        start,
    ):
        with pytest.raises(InputError, match=rf"stats\.json is damaged, .* delete {copied}"):
            read()


def test_shards_without_their_stats(copied, tiny_vocabulary):
    """Nothing says with which vocabulary they were made."""
    (copied / "stats.json").unlink()
    with pytest.raises(InputError, match=rf"{copied}/train-0000.*stats\.json"):
        albert_tf.pretraining_dataset(str(copied / "train-*"), tiny_vocabulary)


def test_bad_input(start, tiny_corpus, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\*\.nothing"):
        start(tmp_path / "*.nothing")
    for options, named in (
        ({"shards": 0}, "shards=0"),
        ({"shards": 100_000}, "shards=100000"),
        ({"shards": "2"}, "shards='2'"),
        ({"eval_share": float("nan")}, "eval_share=nan"),
        ({"input_format": "xml"}, "xml"),
        ({"format": "examples", "seq_length": 3}, "seq_length=3"),
        ({"beam_options": ["--bogus=3"]}, "--bogus"),
        ({"beam_options": ["--direct_running_mode=foo"]}, "foo"),
        ({"beam_options": ["--runner=Foo"]}, "Foo"),
        ({"beam_options": ["false"]}, "false: "),
        ({"beam_options": ["b.txt", "-shards", "4"]}, "b.txt -shards 4: "),
    ):
        with pytest.raises(InputError, match=named):
            start(**options)
    (tmp_path / "wide.txt").write_bytes(CORPUS.encode("utf-16"))
    with pytest.raises(PreparationFailed, match=r"wide\.txt:1: not UTF-8"):
        start(tmp_path / "wide.txt")
    assert not (tmp_path / "out").exists()
    text = shutil.copyfile(tiny_corpus, tmp_path / "train-a.txt")
    with pytest.raises(FileExistsError, match="name a folder of its own"):
        start(text, output=tmp_path)
    assert text.read_bytes() == tiny_corpus.read_bytes()


def test_a_failure_keeps_what_there_is_to_go_on_from(start, tmp_path):
    noise = random.Random(0).choices("the hat and a loaf\n", k=1_000_000)
    (tmp_path / "cut.gz").write_bytes(gzip.compress("".join(noise).encode())[:-9])
    (tmp_path / "text.txt").write_text("the hat")
    with pytest.raises(PreparationFailed, match=r"cut\.gz is damaged or cut off") as failure:
        start(tmp_path / "cut.gz")
    assert "goes on" not in str(failure.value)
    assert not (tmp_path / "out").exists()
    with pytest.raises(PreparationFailed, match=r"cut\.gz is damaged or cut off.*goes on"):
        start([tmp_path / "text.txt", tmp_path / "cut.gz"])
    assert (tmp_path / "out" / "unfinished" / "run-000000.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["in_memory", pytest.param("multi_processing")])
def test_a_failure_is_one_line(mode, tiny_vocabulary, tmp_path):
    """In a process of its own, where Beam's log would be seen."""
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"the hat and a loaf\n" * 9)[:-8] + bytes(8))
    command = [sys.executable, "-m", "albert_tf", "prepare", "--input", "text.gz", "--output", "a/b"]
    command += [
        f"--direct_running_mode={mode}",
        "--direct_num_workers=2",
        "--vocabulary",
        str(tiny_vocabulary),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if " slices read, " not in line]
    assert line.startswith("albert-tf prepare: text.gz is damaged or cut off (CRC check failed")
    assert {path.name for path in tmp_path.rglob("*")} == {"text.gz", "a"}


@pytest.mark.parametrize(
    ("text", "input_format", "counts"),
    [
        ("", "lines", ""),
        ('{"title": "x"}\n[1]\nA line.\n{"text": " "}\n', "jsonl", "empty 1.*json 1.*without_text_field 2"),
    ],
)
def test_no_documents(text, input_format, counts, start, tmp_path):
    (tmp_path / "text.txt").write_text(text)
    with pytest.raises(PreparationFailed, match=rf"text\.txt.*{input_format}.*{counts}"):
        start(tmp_path / "text.txt", input_format=input_format)
    assert not (tmp_path / "out").exists()


def test_options_of_beam_and_its_runner():
    flags = ["--runner=DirectRunner", "--direct_num_workers=2", "--direct_running_mode", "multi_processing"]
    _, options = runner_and_options(flags)
    assert options.get_all_options()["direct_num_workers"] == 2


def test_a_share_that_leaves_no_documents_to_train_on(start, tmp_path):
    with pytest.raises(PreparationFailed, match="eval_share"):
        start(eval_share=0.999)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_several_processes_write_the_same(prepared, start, tmp_path):
    start(beam_options=["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
    assert content(tmp_path / "out") == content(prepared)


def test_the_text_is_known_by_its_content(start, tiny_corpus, tmp_path, monkeypatch):
    """Wherever it lies, and a change that keeps its size is seen."""
    text = tmp_path / "a.txt"
    shutil.copy(tiny_corpus, text)
    monkeypatch.setattr(corpus, "_SECONDS_BETWEEN_REPORTS", 0.01)
    lines = []
    start(text, report=lines.append)
    assert any("of 1 slices read, 0 of 2 shards written" in line for line in lines)
    made = content(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    start("a.txt", "out")
    text.write_bytes(b"Q" + text.read_bytes()[1:])
    with pytest.raises(InputError, match=r"a\.txt has changed"):
        start(text)
    assert content(tmp_path / "out") == made


# `prepare` killed without a warning: what has its final name is whole, and the same command goes on.

SHARDS = 6
SETTINGS = {"shards": SHARDS, "format": "examples", "seq_length": 48, "dupe_factor": 2}


@pytest.mark.slow
def test_killed_and_started_again(tiny_corpus, tiny_vocabulary, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    text = tiny_corpus.read_text()
    (tmp_path / "text.txt").write_text("\n\n".join(text.replace("the", f"the {i}") for i in range(20)))
    prepare(tmp_path / "text.txt", whole, tiny_vocabulary, report=lambda line: None, **SETTINGS)

    command = [sys.executable, "-m", "albert_tf", "prepare", "--input", str(tmp_path / "text.txt")]
    command += ["--vocabulary", str(tiny_vocabulary), "--output", str(folder)]
    command += [f"--{name}={value}" for name, value in SETTINGS.items()]
    with subprocess.Popen(command) as process:
        deadline = time.monotonic() + 120
        while not (folder.exists() and content(folder)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    left = content(folder)
    assert 0 < len(left) < SHARDS
    assert not (folder / "stats.json").exists()
    for name, shard in left.items():
        assert shard == content(whole)[name]
        assert sum(1 for _ in tf.data.TFRecordDataset(str(folder / name))) > 0
    before = {name: (folder / name).stat().st_mtime_ns for name in left}
    subprocess.run(command, check=True)
    assert content(folder) == content(whole)
    counts = [json.loads((place / "stats.json").read_text())["counts"] for place in (folder, whole)]
    assert counts[0] == counts[1]
    # At most the shard that was renamed and not yet counted is made again.
    assert sum((folder / name).stat().st_mtime_ns != time for name, time in before.items()) <= 1
    assert {file.name for file in folder.iterdir()} == {*content(whole), "stats.json"}


#


@pytest.fixture(params=["", " [1] 字"])
def damaged(request, tmp_path):
    """A file of 200 records, a byte flipped in one of the last."""
    path = tmp_path / f"shard{request.param}.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for number in range(200):
            file.write(b"record %d" % number)
    content = bytearray(path.read_bytes())
    content[-50] ^= 1
    path.write_bytes(content)
    return path


def test_damage_has_one_line_wherever_batches_are_read(damaged, two_replicas):
    dataset = tf.data.Dataset.from_tensors(str(damaged)).flat_map(tfrecord_reader([str(damaged)]))
    iterator = iter(dataset.map(tf.strings.length, tf.data.AUTOTUNE).batch(10).prefetch(2))

    @tf.function
    def step(iterator):
        total = tf.constant(0)
        for _ in tf.range(5):
            rows = two_replicas.experimental_local_results(two_replicas.run(tf.reduce_sum, (next(iterator),)))
            total += sum(rows)
        return total

    with pytest.raises(InputError) as error, name_damaged_files():
        for _ in range(5):
            step(iterator)
    remedy = "make or copy it again, or leave it out"
    assert str(error.value) == f"{damaged} is damaged or cut off and cannot be read to its end: {remedy}"


def test_a_file_that_cannot_be_opened_ends_the_pipeline(damaged):
    """It is not tried for ever; a folder stands for a file that may not be read."""
    read = tfrecord_reader([str(damaged)])
    damaged.unlink()
    for number, make in ((errno.ENOENT, lambda: None), (errno.EISDIR, damaged.mkdir)):
        make()
        dataset = tf.data.Dataset.from_tensors(str(damaged)).interleave(read, num_parallel_calls=2)
        with pytest.raises(OSError) as caught, name_damaged_files():
            list(dataset.map(tf.strings.length, tf.data.AUTOTUNE).prefetch(2))
        assert (caught.value.errno, caught.value.filename) == (number, str(damaged))
        with pytest.raises(OSError) as caught:
            first_example([str(damaged)])
        assert (caught.value.errno, caught.value.filename) == (number, str(damaged))


def test_a_file_that_is_cut_off_between_two_records_is_named(damaged):
    read = tfrecord_reader([str(damaged)])
    content = damaged.read_bytes()
    damaged.write_bytes(content[: 16 + len("record 0")])
    with pytest.raises(InputError, match=re.escape(str(damaged))), name_damaged_files():
        list(tf.data.Dataset.from_tensors(str(damaged)).flat_map(read))


def test_other_errors_stay_as_they_are():
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"), name_damaged_files():
        tf.debugging.assert_positive(-1, "must be positive")


def test_examples_of_a_shard_without_documents(tiny_vocabulary, tmp_path):
    """Made several times over: the corpus of one document leaves one of two shards empty."""
    (tmp_path / "text.txt").write_text("\n".join(DOCUMENTS[0]))
    output, settings = tmp_path / "out", {**EXAMPLES, "dupe_factor": 2, "shards": 2}
    stats = prepare(tmp_path / "text.txt", output, tiny_vocabulary, report=lambda line: None, **settings)
    sizes = sorted(path.stat().st_size for path in output.glob("*.tfrecord"))
    assert sizes[0] == 0 < sizes[1] and stats["counts"]["examples"] >= 2
    (output / "unfinished").mkdir()
    prepare(tmp_path / "text.txt", output, tiny_vocabulary, report=lambda line: None, **settings)
    assert not (output / "unfinished").exists()


def test_what_examples_have_cannot_be_asked_for(examples, tiny_corpus, tiny_vocabulary, capsys):
    with pytest.raises(InputError, match="made its pairs for sop"):
        albert_tf.pretraining_dataset(examples, tiny_vocabulary, sentence_objective="nsp", **SIZE)
    words = ["prepare", "--input", tiny_corpus, "--vocabulary", tiny_vocabulary, "--output", "y"]
    line = mistake(capsys, *words, "--seq_length", 32)
    assert "--seq_length: of no use to documents, without --format examples" in line


@pytest.mark.parametrize("words", [["--dedup", "false"], ["-shards", "4"], ["b.txt"]])
def test_stray_words_are_refused(words, tiny_corpus, tiny_vocabulary, tmp_path, capsys):
    """As a value of a flag that takes none, and a flag with one dash; a runner would ignore them."""
    places = ["--input", tiny_corpus, "--vocabulary", tiny_vocabulary, "--output", tmp_path / "out"]
    assert words[-1] in mistake(capsys, "prepare", *places, *words)
    assert not (tmp_path / "out").exists()
