"""Held-out losses of a run."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.data.tfrecords import encode_examples
from albert_tf.errors import InputError
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.pretraining.pretraining_settings import read_recipe
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from tests.albert_tf.pretraining.runs import evaluation_batches, metrics
from tests.tiny import change_json


@pytest.fixture(scope="module")
def evaluated(run, tiny_corpus):
    """Figures of the run on the text that it was evaluated on."""
    return evaluate_run(run, [str(tiny_corpus)], batch_size=4)


def test_evaluate_run(run, settings, evaluated):
    figures = evaluated
    last = metrics(run)[-1]
    for name in ("eval_mlm_loss", "eval_sop_loss", "eval_mlm_accuracy"):
        np.testing.assert_allclose(figures[name], last[name], rtol=1e-5)
    np.testing.assert_allclose(figures["eval_mlm_perplexity"], np.exp(figures["eval_mlm_loss"]), rtol=1e-6)
    masked = np.concatenate(
        [
            batch["masked_lm_ids"].numpy()[batch["masked_lm_weights"].numpy() > 0]
            for batch in evaluation_batches(settings())
        ]
    )
    shares = np.unique(masked, return_counts=True)[1] / len(masked)
    entropy = -(shares * np.log(shares)).sum()
    np.testing.assert_allclose(figures["eval_mlm_unigram_entropy"], entropy, rtol=1e-6)
    rows = [batch["input_mask"].numpy()[:, 0].sum() for batch in evaluation_batches(settings())]
    assert (figures["step"], figures["examples"], figures["seq_length"]) == (6, sum(rows), 32)


def test_compiled_by_xla_the_figures_are_the_same(run, tiny_corpus, evaluated, caplog):
    caplog.set_level("INFO", "absl")
    figures = evaluate_run(run, [str(tiny_corpus)], batch_size=4, xla=True)
    assert figures == pytest.approx(evaluated, rel=1e-5)
    (line,) = [line for line in caplog.messages if line.startswith("compiling ")]
    assert "evaluation for 4 × 32 tokens" in line


@pytest.fixture
def stored(settings, tiny_vocabulary, tmp_path):
    """Examples that keep their masks in any batch."""
    path, vocabulary = tmp_path / "examples.tfrecord", SentencePieceVocabulary.from_file(tiny_vocabulary)
    with tf.io.TFRecordWriter(str(path)) as file:
        for batch in evaluation_batches(settings()).as_numpy_iterator():
            for record in encode_examples(batch, vocabulary):
                file.write(record)
    return [str(path)]


def test_the_batch_size_decides_about_no_figure(run, stored):
    figures = [evaluate_run(run, stored, batch_size=size) for size in (1, 32)]
    assert figures[0] == pytest.approx(figures[1], rel=1e-5)


@pytest.mark.slow
def test_text_is_normalised_as_the_run_says(run, tiny_corpus, evaluated, tmp_path):
    """A cased run sees what an uncased one does, if the text has no capitals."""
    cased, small = shutil.copytree(run, tmp_path / "run"), tmp_path / "small.txt"
    (cased / "tokenizer.json").write_text('{"lowercase": false, "strip_accents": true}')
    small.write_text(tiny_corpus.read_text("utf-8").lower(), "utf-8")
    losses = [
        evaluate_run(cased, [str(text)], batch_size=4)["eval_mlm_loss"] for text in (small, tiny_corpus)
    ]
    assert losses[0] == pytest.approx(evaluated["eval_mlm_loss"], rel=1e-6)
    assert abs(losses[0] - losses[1]) > 1e-4


def test_a_recipe_that_says_nonsense_is_named(run, tmp_path):
    (tmp_path / "recipe.json").write_text('{"seq_length": "32"}')
    with pytest.raises(InputError, match=r"recipe\.json: seq_length='32'"):
        read_recipe(tmp_path)


@pytest.mark.slow
def test_another_step_length_and_more_passes(run, tiny_corpus, evaluated):
    two = evaluate_run(run, [str(tiny_corpus)], batch_size=4, passes=2)  # with other pairs and masks
    assert 1.8 < two["examples"] / evaluated["examples"] < 2.2
    assert abs(two["eval_mlm_loss"] - evaluated["eval_mlm_loss"]) > 1e-4
    earlier = evaluate_run(run, [str(tiny_corpus)], batch_size=4, step=3, seq_length=64)
    assert (earlier["step"], earlier["seq_length"]) == (3, 64)
    few = evaluate_run(run, [str(tiny_corpus)], batch_size=4, step=3, seq_length=64, max_predictions=1)
    assert few["eval_mlm_loss"] != earlier["eval_mlm_loss"]
    with pytest.raises(InputError, match="seq_length=65"):
        evaluate_run(run, [str(tiny_corpus)], seq_length=65)
    with pytest.raises(FileNotFoundError, match=r"ckpt-4\.index"):
        evaluate_run(run, [str(tiny_corpus)], step=4)


@pytest.mark.slow
def test_other_masks_are_those_of_a_run_that_was_trained_with_them(run, tiny_corpus, evaluated, tmp_path):
    copy, asked = shutil.copytree(run, tmp_path / "run"), {"masked_lm_prob": 0.3, "max_ngram": 1}
    change_json(copy / "recipe.json", **asked, max_predictions=None)
    figures = evaluate_run(run, [str(tiny_corpus)], batch_size=4, **asked)
    assert figures == evaluate_run(copy, [str(tiny_corpus)], batch_size=4)
    assert figures != evaluated
    with pytest.raises(InputError, match="max_ngram=0 must be at least 1"):
        evaluate_run(run, [str(tiny_corpus)], max_ngram=0)


def test_weights_that_are_not_finite_are_named(run, tiny_corpus, tmp_path):
    model = albert_tf.load(run)
    model.encoder.variables[0].assign(model.encoder.variables[0] * np.nan)
    albert_tf.save(model, tmp_path / "run", vocabulary=run / "spiece.model")
    with pytest.raises(InputError, match="NaN or infinity in embeddings/word_embeddings"):
        evaluate_run(tmp_path / "run", [str(tiny_corpus)])
