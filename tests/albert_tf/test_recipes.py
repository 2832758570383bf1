"""The published hyper-parameters, against a table typed from the papers."""

import dataclasses

import pytest

from albert_tf import PRESETS
from albert_tf.recipes import DEFAULT_RECIPE, RECIPES, PretrainingRecipe

# optimizer, rate, batch, steps, warm-up, β₂, clipping, objective, n-gram, whole words
PUBLISHED = {
    "albert_base_v1": ("lamb", 0.00176, 4096, 125_000, 3125, 0.999, 1.0, "sop", 3, True),
    "albert_xxlarge_v1": ("lamb", 0.00176, 4096, 125_000, 3125, 0.999, 1.0, "sop", 3, True),
    "albert_base_v2": ("lamb", 0.00176, 4096, 10_000_000, 3125, 0.999, 1.0, "sop", 3, True),
    "albert_xlarge_v2": ("lamb", 0.00176, 4096, 3_000_000, 3125, 0.999, 1.0, "sop", 3, True),
    "bert_base": ("adamw", 1e-4, 256, 1_000_000, 10_000, 0.999, 1.0, "nsp", 1, False),
    "roberta_base": ("adamw", 6e-4, 8192, 500_000, 24_000, 0.98, None, "none", 1, False),
    "roberta_large": ("adamw", 4e-4, 8192, 500_000, 30_000, 0.98, None, "none", 1, False),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(name):
    recipe = RECIPES[name]
    assert PUBLISHED[name] == (
        recipe.optimizer,
        recipe.learning_rate,
        recipe.batch_size,
        recipe.steps,
        recipe.warmup_steps,
        recipe.beta_2,
        recipe.clip_norm,
        recipe.examples.sentence_objective,
        recipe.examples.max_ngram,
        recipe.examples.whole_word,
    )
    assert (recipe.weight_decay, recipe.epsilon, recipe.beta_1) == (0.01, 1e-6, 0.9)
    assert (recipe.examples.seq_length, recipe.examples.masked_lm_prob) == (512, 0.15)


def test_every_preset_has_a_recipe():
    assert set(PRESETS) <= set(RECIPES)
    assert DEFAULT_RECIPE in RECIPES


def test_recipes_cannot_be_changed_but_replaced():
    recipe = RECIPES["albert_base_v1"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.steps = 1
    assert recipe.replace(steps=5000).steps == 5000
    assert recipe.steps == 125_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps=0 must be at least 1 and"),
        ({"batch_size": 0}, "batch_size=0 must be at least 1 and"),
        ({"steps": 10, "warmup_steps": 11}, "warmup_steps=11 must lie between 0 and steps=10"),
        ({"word_embeddings": "pmi"}, "word_embeddings='pmi' is none of random, cooccurrence"),
        ({"sentence_objective": "mlm"}, "sentence_objective='mlm' is none of sop, nsp, none"),
        ({"learning_rate": float("nan")}, "learning_rate=nan must be a number of float32 that is not negat"),
        ({"learning_rate": 1e39}, r"learning_rate=1e\+39 must be a number of float32"),
        ({"weight_decay": float("inf")}, "weight_decay=inf must be a number of float32 that is not negative"),
        ({"clip_norm": float("nan")}, "clip_norm=nan must be a positive number of float32; none turns"),
        ({"clip_norm": 0.0}, r"clip_norm=0\.0 must be a positive number of float32; none turns clipping off"),
        ({"epsilon": 0.0}, r"epsilon=0\.0 must be a positive number"),
        ({"beta_1": float("nan")}, "beta_1=nan must be at least 0 and below 1"),
        ({"beta_2": 1.0}, r"beta_2=1\.0 must be at least 0 and below 1"),
        ({"masked_lm_prob": float("nan")}, "masked_lm_prob=nan must be above 0 and below 1"),
        ({"short_seq_prob": float("nan")}, "short_seq_prob=nan must be between 0 and 1"),
        ({"seq_length": "512"}, "seq_length='512' must be of type int"),
        ({"batch_size": True}, "batch_size=True must be of type int"),
        ({"clip_norm": "1"}, r"clip_norm='1' must be of type float \| None"),
        ({"whole_word": 1}, "whole_word=1 must be of type bool"),
    ],
)
def test_impossible_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        PretrainingRecipe().replace(**changes)
