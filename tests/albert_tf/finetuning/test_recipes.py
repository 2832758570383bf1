"""The paper's hyper-parameters against its table, typed once more; steps of epochs by hand."""

import dataclasses

import pytest

from albert_tf import PRESETS
from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_recipes import FINETUNING_RECIPES, FinetuningRecipe
from albert_tf.recipes import QuestionSettings

# Learning rate / batch / ALBERT dropout / classifier dropout / steps / warm-up / length.
PUBLISHED = """
cola 1e-5/16/0/.1/5336/320/512
sts-b 2e-5/16/0/.1/3598/214/512
sst-2 1e-5/32/0/.1/20935/1256/512
mnli 3e-5/128/0/.1/10000/1000/512
qnli 1e-5/32/0/.1/33112/1986/512
qqp 5e-5/128/.1/.1/14000/1000/512
rte 3e-5/32/.1/.1/800/200/512
mrpc 2e-5/32/0/.1/800/200/512
wnli 2e-5/16/.1/.1/2000/250/512
squad-v1.1 5e-5/48/0/.1/3649/365/384
squad-v2.0 3e-5/48/0/.1/8144/814/512
race 2e-5/32/.1/.1/12000/1000/512
"""
COLUMNS = [
    *("learning_rate", "batch_size", "dropout", "classifier_dropout"),
    *("steps", "warmup_steps", "seq_length"),
]


def test_published_values():
    for line in PUBLISHED.split("\n")[1:-1]:
        name, _, values = line.partition(" ")
        recipe = FINETUNING_RECIPES[name]
        assert [getattr(recipe, column) for column in COLUMNS] == [float(x) for x in values.split("/")], name
        assert (recipe.weight_decay, recipe.epsilon, recipe.clip_norm) == (0.01, 1e-6, 1.0)
        assert recipe.in_steps(100) == recipe
    assert dataclasses.astuple(QuestionSettings()) == (128, 64, 30, 20)


def test_epochs_become_steps():
    recipe = FinetuningRecipe(learning_rate=1e-5, batch_size=16, seq_length=64, epochs=2.5)
    found = recipe.in_steps(1000)
    assert (found.steps, found.epochs, found.warmup_steps) == (156, None, 16)
    assert recipe.replace(warmup_steps=7).in_steps(1000).warmup_steps == 7
    assert recipe.in_steps(3).steps == 1
    assert recipe.replace(steps=9).epochs is None
    short = FINETUNING_RECIPES["rte"].replace(epochs=3.0).in_steps(2490)
    assert (short.steps, short.warmup_steps) == (233, 23)
    assert FINETUNING_RECIPES["rte"].replace(steps=70).in_steps(1).warmup_steps == 7
    assert FINETUNING_RECIPES["rte"].replace(learning_rate=1.0).warmup_steps == 200
    with pytest.raises(InputError, match=r"warmup_steps=200 .*steps=23"):
        FINETUNING_RECIPES["rte"].replace(epochs=3.0, warmup_steps=200).in_steps(249)


def test_the_network_gets_the_dropouts():
    config = FINETUNING_RECIPES["rte"].replace(classifier_dropout=0.2).network(PRESETS["albert_base_v2"])
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.1, 0.1)
    assert config.classifier_dropout_prob == 0.2


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rate": float("nan")},
        {"batch_size": 0},
        {"seq_length": 2**31},
        {"epochs": 0.0},
        {"steps": 1, "epochs": 1.0},
        {"steps": None},
        {"warmup_steps": 801},
        {"dropout": 1.0},
        {"pooling": "max"},
    ],
    ids=str,
)
def test_impossible_values_are_named(changes):
    name, value = next(iter(changes.items()))
    with pytest.raises(InputError) as caught:
        FINETUNING_RECIPES["rte"].replace(**changes)
    assert str(caught.value).startswith(f"{name}={value!r}")


def test_impossible_question_settings_are_refused():
    for name in ("doc_stride", "max_query_length", "max_answer_length", "n_best"):
        with pytest.raises(InputError, match=f"{name}=0"):
            QuestionSettings(**{name: 0})
