import collections
import gzip
import math
import re
import socket

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.constants import pretraining_spec
from albert_tf.data.dataset import NoExamplesError
from albert_tf.data.documents import CorpusSplit
from albert_tf.data.sources import is_tfrecord
from albert_tf.data.tfrecords import name_damaged_files
from albert_tf.errors import InputError
from tests.albert_tf.commands import ROOT, start, wait_for
from tests.tiny import CORPUS, DOCUMENTS

SIZE = {"batch_size": 8, "seq_length": 48}


@pytest.fixture(scope="module")
def dataset(tiny_corpus, tiny_vocabulary):
    """pretraining_dataset of the tiny corpus, small batches."""

    def make(inputs=tiny_corpus, **options):
        return albert_tf.pretraining_dataset(inputs, tiny_vocabulary, **{**SIZE, **options})

    return make


def as_numpy(batches, count=None):
    return list(batches.take(-1 if count is None else count).as_numpy_iterator())


def same(first, second):
    return all(
        (one[name] == other[name]).all() for one, other in zip(first, second, strict=True) for name in one
    )


def original_ids(batch):
    """The ids of a batch before they were masked."""
    ids = batch["input_word_ids"].copy()
    rows, columns = np.nonzero(batch["masked_lm_weights"])
    ids[rows, batch["masked_lm_positions"][rows, columns]] = batch["masked_lm_ids"][rows, columns]
    return ids


def unmasked(batch):
    """The segments of each real row, masks undone, and its label."""
    ids = original_ids(batch)
    for row, mask, types, label in zip(
        ids, batch["input_mask"], batch["input_type_ids"], batch["sentence_order_labels"], strict=True
    ):
        if mask.any():
            a, b = row[(mask == 1) & (types == 0)].tolist(), row[(mask == 1) & (types == 1)].tolist()
            assert (a[0], a[-1], b[-1]) == (2, 3, 3)
            yield a[1:-1], b[:-1], label


def follows(right, left, document):
    """Whether one run of a document's tokens comes after another."""
    places = [
        [i for i in range(len(document)) if document[i : i + len(part)] == part] for part in (left, right)
    ]
    return all(places) and places[0][0] + len(left) <= places[1][-1]


@pytest.fixture(scope="module")
def batches(dataset):
    """Forty batches with the seed 1."""
    return as_numpy(dataset(seed=1), 40)


def test_shapes_types_and_ids(dataset, batches):
    single = dataset(sentence_objective="none", max_predictions=9)
    for found, predictions, objective in ((batches, 8, "sop"), (as_numpy(single, 1), 9, "none")):
        spec = pretraining_spec(8, 48, predictions, objective)  # 8: ceil(0.15 · 48)
        for batch in found:
            assert {name: (x.shape, x.dtype) for name, x in batch.items()} == {
                name: (s.shape, s.dtype.as_numpy_dtype) for name, s in spec.items()
            }
            assert 0 <= batch["input_word_ids"].min() <= batch["input_word_ids"].max() < 200
            padding = batch["input_mask"] == 0
            assert not batch["input_word_ids"][padding].any()
            assert not batch["input_type_ids"][padding].any()
            assert (np.diff(batch["input_mask"], axis=1) <= 0).all()
            assert batch["input_type_ids"].any() == (objective == "sop")
    assert {name: x.shape for name, x in single.element_spec.items()} == {
        name: x.shape for name, x in spec.items()
    }
    assert single.options().autotune.enabled is False  # it would delay the end


def test_unmasked_examples_are_text_of_one_document(batches, tiny_tokenizer):
    documents = [tiny_tokenizer(document).flat_values.numpy().tolist() for document in DOCUMENTS]
    labels = collections.Counter()
    for batch in batches:
        for a, b, label in unmasked(batch):
            left, right = (b, a) if label else (a, b)
            assert any(follows(right, left, document) for document in documents)
            labels[int(label)] += 1
    assert sum(labels.values()) == 320
    assert abs(labels[1] - 160) < 3 * (320 * 0.25) ** 0.5


def test_one_seed_means_the_same_bytes_and_a_restored_iterator_goes_on(dataset, batches, tmp_path):
    try:
        tf.random.set_seed(17)  # the program's seed has no say
        again = dataset(seed=1)
        iterator = iter(again)
        found = [next(iterator) for _ in range(5)]
    finally:
        tf.random.set_seed(None)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "ckpt"))
    restored = iter(again)
    tf.train.Checkpoint(iterator=restored).restore(path).assert_consumed()
    found += [next(restored) for _ in range(10)]
    assert same(batches[:15], [{name: x.numpy() for name, x in batch.items()} for batch in found])


@pytest.mark.slow
def test_every_example_has_masks_of_its_own(dataset, tmp_path):
    """The same text in every document, block, epoch, pipeline and seed, and other masks in each."""
    (tmp_path / "same.txt").write_text("\n\n".join(["\n".join(DOCUMENTS[0][:3])] * 40))
    options = {"sentence_objective": "none", "short_seq_prob": 0, "shuffle": False, "seq_length": 128}

    def rows(batch_size, **others):
        (batch,) = as_numpy(dataset(tmp_path / "same.txt", batch_size=batch_size, **options, **others), 1)
        assert batch["input_mask"].any(axis=1).all()
        return list(map(tuple, batch["input_word_ids"].tolist()))

    # Two epochs of three blocks, and the second one of two pipelines with another seed.
    found = rows(80) + rows(20, input_context=tf.distribute.InputContext(2, 1, 2), seed=1)
    assert len(set(found)) == 100


@pytest.mark.slow
def test_a_cache_is_filled_once_and_examples_do_not_depend_on_the_batch_size(dataset, tiny_corpus, tmp_path):
    """The text is not read any more; the last batch is filled up."""

    def rows(dataset, batch_size):
        batches = as_numpy(dataset)
        columns = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
        real = columns["input_mask"].any(axis=1)
        for name, column in columns.items():
            assert (column[~real] == (-1 if name == "sentence_order_labels" else 0)).all()
        assert batches[-1]["input_mask"].shape == (batch_size, 48)
        return {name: column[real] for name, column in columns.items()}

    text = tmp_path / "text.txt"
    text.write_text(tiny_corpus.read_text())
    options = {"repeat": False, "shuffle": False, "share": CorpusSplit("documents", 0.0, 0.7)}
    cached = dataset(text, cache=True, batch_size=3, **options)
    first = rows(cached, 3)
    text.unlink()
    assert same([first], [rows(cached, 3)])
    assert same([first], [rows(dataset(batch_size=50, **options), 50)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_length": 4}, "seq_length=4 must be at least 5: 3 special"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"masked_lm_prob": math.nan}, "masked_lm_prob=nan"),
        ({"sentence_objective": "soap"}, "sentence_objective='soap'"),
    ],
)
def test_impossible_arguments(dataset, options, message):
    with pytest.raises(InputError, match=message):
        dataset(**options)


def test_nothing_to_learn_from(dataset, tmp_path):
    for content in ("", "word\n\nword", "\u00ad\n"):
        (tmp_path / "empty.txt").write_text(content)
        with pytest.raises(NoExamplesError, match=r"empty\.txt"):
            dataset(tmp_path / "empty.txt")
    with pytest.raises(NoExamplesError, match=r"corpus\.txt, part 9 of 10"):
        dataset(input_context=tf.distribute.InputContext(10, 9, 10))


def test_a_corpus_that_is_emptied_while_it_is_read(dataset, tiny_corpus, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(tiny_corpus.read_bytes())
    batches = iter(dataset(corpus))
    next(batches)
    corpus.write_text("")
    with pytest.raises(InputError, match=r"corpus\.txt holds no document any more"), name_damaged_files():
        for _ in batches:
            pass


def test_what_is_not_text(dataset, tiny_corpus, tiny_vocabulary, tmp_path):
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(tiny_corpus.read_bytes()))
    (tmp_path / "cut.gz").write_bytes(b"not compressed" * 100)
    with pytest.raises(InputError, match=r"cut\.gz is damaged or cut off"):
        dataset(str(tmp_path / "*.gz"))
    # Of several pipelines only the one that reads the file is concerned.
    part = tf.distribute.InputContext(2, 1, 2)
    dataset([tmp_path / "cut.gz", tmp_path / "text.txt.gz"], input_context=part)
    with pytest.raises(FileNotFoundError, match=r"absent\.txt: no such file"):
        dataset(tmp_path / "absent.txt")
    with pytest.raises(FileNotFoundError, match=r"absent\.model"):
        albert_tf.pretraining_dataset(tiny_corpus, tmp_path / "absent.model")


@pytest.mark.slow
def test_data_service(dataset, data_service):
    def rows(batches):
        batches = as_numpy(batches, 40)
        return [tuple(row) for batch in batches for row in batch["input_word_ids"].tolist() if any(row)]

    assert sorted(rows(dataset(repeat=False, data_service=data_service))) == sorted(
        rows(dataset(repeat=False))
    )
    endless = rows(dataset(data_service=data_service))
    assert len(endless) == 320
    assert len(set(endless)) > 310  # the workers do not make the same examples


@pytest.mark.slow
def test_a_data_service_that_loses_a_worker(dataset, tmp_path):
    """By the program of the examples: the other one goes on, and one that comes later is taken."""
    program, log = ROOT / "examples/several_hosts/data_service.py", tmp_path / "log"
    processes = [start([program, "dispatcher"], log)]
    try:
        wait_for("grpc://", log, processes)
        place = "localhost:" + re.search(r"grpc://[^:]*:(\d+)", log.read_text())[1]

        def begin_worker():
            length = log.stat().st_size
            words = ["worker", "--dispatcher", place, "--host=localhost"]
            processes.append(start([program, *words], log))
            wait_for("working", log, processes, length)

        begin_worker()
        begin_worker()
        batches = iter(dataset(data_service=f"grpc://{place}"))
        before = [next(batches) for _ in range(5)]
        processes.pop(1).kill()
        after = [next(batches) for _ in range(30)]
        begin_worker()
        processes.pop(1).kill()  # the last of the first two
        later = [next(batches) for _ in range(30)]
    finally:
        for process in processes:
            process.kill()
    for batch in (*before, *after, *later):
        assert (batch["input_word_ids"].numpy()[:, 0] == 2).all()  # [CLS]


def test_a_data_service_that_does_not_answer(dataset):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"grpc://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(ConnectionError, match=r"data_service=.* does not answer"):
        dataset(data_service=address)


def test_the_graph_carries_the_vocabulary_and_no_python(dataset):
    """Workers of the tf.data service get it that way; no resource of this process is captured."""
    serialised = dataset()._as_serialized_graph().numpy()
    assert not any(op in serialised for op in (b"PyFunc", b"RandomUniformInt\0"))
    graph = tf.compat.v1.GraphDef.FromString(serialised)
    functions = {function.signature.name: function for function in graph.library.function}
    nodes = [node for function in functions.values() for node in function.node_def]
    ops, asserts = {node.op for node in nodes}, {node.name for node in nodes if node.op == "Assert"}
    assert all(name.startswith("documents_left") for name in asserts)  # RaggedTensor's would cost time
    assert {"SentencepieceOp", "ParallelMapDatasetV2"} <= ops
    assert not {"Placeholder", "VarHandleOp"} & {node.op for node in graph.node}


@pytest.mark.slow
def test_one_document_has_no_random_next_segments(dataset, tmp_path, caplog):
    (tmp_path / "one.txt").write_text("\n".join(DOCUMENTS[0]))
    batch = next(iter(dataset(tmp_path / "one.txt", sentence_objective="nsp")))
    assert caplog.messages == [f"{tmp_path / 'one.txt'}: one document alone, so all labels of nsp are 0"]
    assert not batch["next_sentence_labels"].numpy().any()


def test_a_large_compressed_text_is_no_tfrecord(tmp_path):
    """The header that `gzip -n` writes reads as the length of a record of 559,903 bytes."""
    content = gzip.compress(np.random.default_rng(0).bytes(600_000).hex().encode(), mtime=0)
    assert content[:8] == b"\x1f\x8b\x08" + bytes(5) and len(content) > 559_919
    (tmp_path / "text.txt.gz").write_bytes(content)
    assert not is_tfrecord(str(tmp_path / "text.txt.gz"))


def test_a_restored_iterator_reads_text_that_has_moved(dataset, tiny_vocabulary, tmp_path):
    """It goes on in the new place, with the same batches, though the old one is gone."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "a.txt").write_text((CORPUS + "\n\n") * 300)  # more than is read ahead
    options = {"batch_size": 64, "seq_length": 16}
    batches = albert_tf.pretraining_dataset(old / "a.txt", tiny_vocabulary, **options)
    iterator = iter(batches)
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "ckpt"))
    expected = [next(iterator) for _ in range(40)]
    old.rename(new)
    moved = iter(albert_tf.pretraining_dataset(new / "a.txt", tiny_vocabulary, **options))
    tf.train.Checkpoint(iterator=moved).read(path).assert_consumed()
    for batch in expected:
        np.testing.assert_equal(*({name: x.numpy() for name, x in of.items()} for of in (batch, next(moved))))
