"""Fixtures of the whole session: TensorFlow is slow to import and vocabularies are slow to train."""

import fcntl
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf
import tf_keras as keras
from absl import flags

import albert_tf
from tests.tiny import TINY, write_corpus

GOLDEN = Path(__file__).parent / "golden"
SEED = 1


def pytest_configure() -> None:
    """Four virtual CPUs for the tests of tf.distribute, and products of float32 that are exact on GPUs.

    That is while TensorFlow has not started yet. It optimises no graphs, which takes longer than to run them;
    it does for slow tests of exported modules, and in the processes that tests start. The environment is for
    these. Who runs the tests in the background, or with nohup, may have them ignore Ctrl-C and SIGHUP, which
    some of them send.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # As absl.app sets it for commands, unless somebody has: saving a SavedModel sets it, and sets it back.
    flags.FLAGS.set_default("verbosity", 0)
    os.environ.update(NVIDIA_TF32_OVERRIDE="0", TF_FORCE_GPU_ALLOW_GROWTH="true")
    tf.config.experimental.enable_tensor_float_32_execution(False)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    four = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], four)


def pytest_report_header() -> str:
    """The devices that the tests run on."""
    gpus = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices("GPU")]
    names = ", ".join(details.get("device_name", "a GPU") for details in gpus)
    return f"TensorFlow {tf.__version__} on {names or 'the CPU'}"


def pytest_collection_finish() -> None:
    """Modules that are imported by now stay, so that the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    """Each fixture draws the same random weights, whichever test of which process asks for it first."""
    keras.utils.set_random_seed(SEED)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """And so does each test, whichever fixtures were made for it."""
    keras.utils.set_random_seed(SEED)


@pytest.fixture(scope="session")
def two_replicas() -> tf.distribute.Strategy:
    """A MirroredStrategy over two virtual CPUs."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture(scope="session")
def golden() -> Path:
    """The recorded outputs of other implementations that travel with the repository."""
    return GOLDEN


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real data and further recorded outputs, beside the repository or under ALBERT_TF_SHARED."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("ALBERT_TF_SHARED", beside))
    if not folder.is_dir():
        reason = f"no recorded outputs and data at {folder} (ALBERT_TF_SHARED names another place)"
        if os.environ.get("ALBERT_TF_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def interop_python() -> Path:
    """The interpreter of the environment with PyTorch, transformers and other runtimes."""
    python = Path(__file__).resolve().parents[1] / ".venv-interop/bin/python"
    if not python.exists():
        reason = f"{python} is missing: `make test-slow` makes it from requirements-interop.txt"
        if os.environ.get("ALBERT_TF_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return python


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Writes a folder by a function, once for all processes of pytest-xdist; they only read it."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place

    def made(name: str, write: Callable[[Path], object]) -> Path:
        with (place / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / name).exists():
                write(place / f"{name}-begun")
                (place / f"{name}-begun").rename(place / name)
        return place / name

    return made


@pytest.fixture(scope="session")
def tiny_corpus(made_once) -> Path:
    """A text file with the eight documents of tests.tiny."""

    def write(folder):
        folder.mkdir()
        write_corpus(folder)

    return made_once("corpus", write) / "corpus.txt"


@pytest.fixture(scope="session")
def tiny_vocabulary(tiny_corpus, made_once) -> Path:
    """A vocabulary of the tiny corpus with as many pieces as TINY has rows of embeddings.

    Of how its text was normalised it remembers nothing, so that tests may say what they like.
    """
    from albert_tf.text.tokenizer_config import tokenizer_settings_path
    from albert_tf.text.vocabulary_training import train_vocabulary

    def write(folder):
        train_vocabulary(tiny_corpus, folder / "spiece.model", vocab_size=TINY.vocab_size)
        tokenizer_settings_path(folder / "spiece.model").unlink()

    return made_once("vocabulary", write) / "spiece.model"


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_vocabulary):
    """The tokenizer of the tiny vocabulary."""
    from albert_tf.text.tokenizer import Tokenizer

    return Tokenizer(tiny_vocabulary)


@pytest.fixture(scope="session")
def byte_pairs(tiny_corpus, made_once) -> Path:
    """A vocabulary of byte-level BPE of the tiny corpus: other special ids, and RoBERTa's frame."""
    from albert_tf.text.vocabulary_training import train_vocabulary

    return made_once("bpe", lambda folder: train_vocabulary(tiny_corpus, folder, 300, kind="byte_level_bpe"))


@pytest.fixture(scope="session")
def piece_tokenizer(tiny_vocabulary):
    """The tiny vocabulary's tokenizer, as it is in a graph."""
    from albert_tf.text.sentencepiece import SentencePieceTokenizer, SentencePieceVocabulary

    return SentencePieceTokenizer(SentencePieceVocabulary.from_file(tiny_vocabulary))


@pytest.fixture(scope="session")
def published_vocabulary(shared) -> Path:
    """The vocabulary of the published ALBERT models."""
    return shared / "data/vocabulary/30k-clean.model"


@pytest.fixture(scope="session")
def published_tokenizer(published_vocabulary):
    """The published vocabulary's tokenizer, as it is in a graph."""
    from albert_tf.text.sentencepiece import SentencePieceTokenizer, SentencePieceVocabulary

    return SentencePieceTokenizer(SentencePieceVocabulary.from_file(published_vocabulary))


@pytest.fixture
def data_service():
    """The address of a tf.data service with two workers."""
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.partition("://")[2]
    config = service.WorkerConfig(dispatcher_address=address, heartbeat_interval_ms=100)
    workers = [service.WorkerServer(config) for _ in range(2)]
    yield dispatcher.target
    for worker in workers:
        worker.stop()


@pytest.fixture(scope="module", autouse=True)
def _eager_layers():
    """Undoes what a test that builds layers in a tf.Graph leaves: Keras makes their classes those of TF 1.

    Layers that other tests share would fail then; one built eagerly makes the classes back.
    """
    albert_tf.AlbertPretrainer(TINY)
