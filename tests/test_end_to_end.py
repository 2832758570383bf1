"""The whole way in one page: text → vocabulary → pre-training → modules → hub.KerasLayer → fine-tuning."""

import pytest
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras as keras

import albert_tf
from albert_tf.pretraining.run import pretrain
from albert_tf.pretraining.settings import Pretraining
from albert_tf.recipes import PretrainingRecipe
from albert_tf.tokenizers import train_vocabulary
from hub_export.export import export
from tests.tiny import TINY


@pytest.mark.slow
def test_text_to_a_fine_tuned_classifier(tiny_corpus, tmp_path):
    # Text to a vocabulary with ALBERT's ids.
    vocabulary = tmp_path / "spiece.model"
    train_vocabulary(tiny_corpus, vocabulary, vocab_size=180)

    # Text and vocabulary to a pre-trained run.
    recipe = PretrainingRecipe().replace(
        optimizer="adamw", learning_rate=1e-3, batch_size=8, steps=4, warmup_steps=1, seq_length=32
    )
    run = tmp_path / "run"
    pretrain(
        Pretraining(
            output=run,
            config=TINY,
            recipe=recipe,
            train=[str(tiny_corpus)],
            eval=[str(tiny_corpus)],
            vocabulary=vocabulary,
        )
    )
    model = albert_tf.load(run)
    assert model.config.vocab_size == 180

    # The run to modules, which need nothing of all that made them.
    modules = tmp_path / "hub"
    export(run, modules, seq_length=24)
    vocabulary.unlink()

    # The modules in a Keras model, as anybody's notebook has them.
    preprocessor = hub.KerasLayer(str(modules / "preprocessor"))
    encoder = hub.KerasLayer(str(modules / "encoder"), trainable=True)
    text = keras.layers.Input(shape=(), dtype=tf.string)
    outputs = encoder(preprocessor(text))
    classifier = keras.Model(text, keras.layers.Dense(2)(outputs["pooled_output"]))

    # The same numbers as the model in memory.
    sentences = tf.constant(["The bees are still there.", "Salt slows the yeast down."])
    inputs = preprocessor(sentences)
    expected = model(inputs)["pooled_output"]
    tf.debugging.assert_near(encoder(inputs)["pooled_output"], expected, atol=1e-5)

    # Fine-tuning moves all of it.
    keras.utils.set_random_seed(0)
    labels = tf.constant([0, 1])
    classifier.compile(
        keras.optimizers.Adam(0.001), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    losses = classifier.fit(sentences, labels, epochs=6, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert float(tf.reduce_max(tf.abs(encoder(inputs)["pooled_output"] - expected))) > 1e-3
