"""The published hyper-parameters, against a table typed from the papers."""

import pytest

from albert_tf import PRESETS
from albert_tf.errors import InputError
from albert_tf.recipes import DEFAULT_RECIPE, PRETRAINING_RECIPES, PretrainingRecipe
from albert_tf.settings import flatten_record

COLUMNS = [
    *("optimizer", "learning_rate", "batch_size", "steps", "warmup_steps", "beta_2", "clip_norm"),
    *("sentence_objective", "max_ngram", "whole_word"),
]
PUBLISHED = {
    "albert_base_v1": ("lamb", 0.00176, 4096, 125_000, 3125, 0.999, 1.0, "sop", 3, True),
    "albert_xxlarge_v1": ("lamb", 0.00176, 4096, 125_000, 3125, 0.999, 1.0, "sop", 3, True),
    "albert_base_v2": ("lamb", 0.00176, 4096, 10_000_000, 3125, 0.999, 1.0, "sop", 3, True),
    "albert_xlarge_v2": ("lamb", 0.00176, 4096, 3_000_000, 3125, 0.999, 1.0, "sop", 3, True),
    "bert_base": ("adamw", 1e-4, 256, 1_000_000, 10_000, 0.999, 1.0, "nsp", 1, False),
    "distilbert_base_uncased": ("adamw", 5e-4, 4000, 500_000, 25_000, 0.98, 5.0, "none", 1, False),
    "roberta_base": ("adamw", 6e-4, 8192, 500_000, 24_000, 0.98, None, "none", 1, False),
    "roberta_large": ("adamw", 4e-4, 8192, 500_000, 30_000, 0.98, None, "none", 1, False),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(name):
    recipe = PRETRAINING_RECIPES[name]
    flat = flatten_record(recipe)
    assert PUBLISHED[name] == tuple(flat[column] for column in COLUMNS)
    decay = 0.0 if name.startswith("distilbert") else 0.01
    assert (recipe.weight_decay, recipe.epsilon, recipe.beta_1) == (decay, 1e-6, 0.9)
    assert (recipe.examples.seq_length, recipe.examples.masked_lm_prob) == (512, 0.15)


def test_input_formats_and_stages():
    """Liu et al. §4.2 chooses FULL-SENTENCES; Devlin et al. §A.2 trains 90 % of the updates at length 128."""
    for size in ("base", "large"):
        roberta, bert = PRETRAINING_RECIPES[f"roberta_{size}"], PRETRAINING_RECIPES[f"bert_{size}_uncased"]
        assert (roberta.examples.input_format, roberta.stages) == ("full_sentences", ())
        assert (bert.examples.input_format, bert.stage_ends) == ("segment_pair", [900_000, 1_000_000])
        short, whole = (bert.for_stage(stage) for stage in bert.stages)
        assert (short.examples.seq_length, short.batch_size * 128) == (128, 256 * 512)
        assert (whole.examples.seq_length, whole.batch_size) == (512, 256)
        assert bert.replace(steps=2, warmup_steps=1).stage_ends == [1, 2]
        with pytest.raises(InputError, match="sentence_objective=none"):
            roberta.replace(sentence_objective="nsp")


def test_every_preset_has_a_recipe():
    assert set(PRESETS) <= set(PRETRAINING_RECIPES)
    assert DEFAULT_RECIPE in PRETRAINING_RECIPES


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 0},
        {"batch_size": True},
        {"warmup_steps": 11, "steps": 10},
        {"word_embeddings": "pmi"},
        {"sentence_objective": "mlm"},
        {"learning_rate": float("nan")},
        {"clip_norm": 0.0},
        {"epsilon": 0.0},
        {"beta_2": 1.0},
        {"masked_lm_prob": -0.1},
        {"seq_length": "512"},
        {"max_predictions": 513},
        {"whole_word": 1},
    ],
    ids=str,
)
def test_impossible_values_are_named(changes):
    name, value = next(iter(changes.items()))
    with pytest.raises(InputError) as caught:
        PretrainingRecipe().replace(**changes)
    assert str(caught.value).startswith(f"{name}={value!r}")
