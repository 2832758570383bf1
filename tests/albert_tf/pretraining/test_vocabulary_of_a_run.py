"""Wherever a run's vocabulary is read it is the one that the run was made with."""

import json
import shutil

import pytest

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.errors import InputError
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from albert_tf.text.vocabulary_training import train_vocabulary
from hub_export.export import export
from tests.tiny import TINY

ANOTHER = r"spiece\.model is not the vocabulary of .*run"


@pytest.fixture(scope="module")
def other_vocabulary(tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """As many pieces, some of them others."""
    path = tmp_path_factory.mktemp("other") / "spiece.model"
    other = train_vocabulary(tiny_corpus, path, vocab_size=200, lowercase=False)
    assert len(other) == len(SentencePieceVocabulary.from_file(tiny_vocabulary))
    return path


@pytest.fixture
def changed_run(run, other_vocabulary, tmp_path):
    """A run whose vocabulary somebody has replaced."""
    copy = shutil.copytree(run, tmp_path / "run")
    shutil.copyfile(other_vocabulary, copy / "spiece.model")
    return copy


# Each with a run, settings like its own, and a place to write.
READERS = {
    "evaluate": lambda run, settings, out: evaluate_run(run, settings().train),
    "export": lambda run, settings, out: export(run, out, seq_length=16),
    "export of the encoder": lambda run, settings, out: export(run, out, encoder_only=True),
    "to google": lambda run, settings, out: convert("run", "google", run, out),
    "to huggingface": lambda run, settings, out: convert("run", "huggingface", run, out),
    # Even with the same vocabulary on the command line: the weights were not made with it.
    "init_from": lambda run, settings, out: pretrain(
        settings(out, init_from=run, vocabulary=run / "spiece.model")
    ),
    "resume": lambda run, settings, out: pretrain(settings(run)),
}


@pytest.mark.parametrize("reader", READERS)
def test_another_vocabulary_of_the_same_size_is_refused(reader, changed_run, settings, tmp_path):
    with pytest.raises(ValueError, match=ANOTHER):
        READERS[reader](changed_run, settings, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_given_for_the_runs_is_compared_with_it(
    run, tiny_vocabulary, other_vocabulary, tmp_path
):
    with pytest.raises(ValueError, match=ANOTHER):
        convert("run", "google", run, tmp_path / "google", vocabulary=other_vocabulary)
    convert("run", "google", run, tmp_path / "google", vocabulary=tiny_vocabulary)
    assert (tmp_path / "google" / "30k-clean.model").read_bytes() == tiny_vocabulary.read_bytes()


def test_padding_that_other_code_counts_positions_by_is_asked_for(settings, tmp_path):
    """RoBERTa's shape is trained on any vocabulary, and convertible with byte-level BPE's padding alone."""
    lines = []
    roberta = TINY.replace(sharing="none", embedding_size=32, position_offset=2, max_position_embeddings=4)
    with pytest.raises(InputError, match="seq_length=32"):  # before it trains
        pretrain(settings(tmp_path / "run", config=roberta), lines.append)
    assert any("padding has id 0 in the vocabulary" in line for line in lines)


def test_a_run_that_does_not_name_its_vocabulary_is_not_compared(changed_run):
    recipe = json.loads((changed_run / "recipe.json").read_text())
    del recipe["vocabulary"]
    (changed_run / "recipe.json").write_text(json.dumps(recipe))
    assert RunDirectory(changed_run).vocabulary == changed_run / "spiece.model"
    (changed_run / "recipe.json").unlink()
    assert RunDirectory(changed_run).vocabulary == changed_run / "spiece.model"


def test_all_settings_of_the_tokenizer_are_those_of_the_origin(settings, tmp_path):
    """Of a BERT of transformers, whose tokenizer reads some texts otherwise than Google's."""
    words, origin = tmp_path / "vocab.txt", tmp_path / "origin"
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "and", "a", "of", "to")
    words.write_text("\n".join(pieces))
    model = albert_tf.AlbertEncoder(TINY.replace(vocab_size=len(pieces)))
    albert_tf.save(model, origin, words, tokenizer={"like_transformers": True})
    with pytest.raises(InputError, match="like_transformers"):
        pretrain(settings(init_from=origin, vocabulary=words))
