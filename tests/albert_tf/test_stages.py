"""Stages: what a file may say, and which updates each has."""

import pytest

from albert_tf.errors import InputError
from albert_tf.recipes import PretrainingRecipe, Stage, parse_stages, read_stages, stage_ends

GROWING = (
    Stage(until=0.25, num_hidden_layers=1, seq_length=64),
    Stage(until=0.9, seq_length=128, batch_size=100),
    Stage(),
)


def test_a_file_is_read(tmp_path):
    path = tmp_path / "stages.json"
    path.write_text(
        '[{"until": 0.25, "num_hidden_layers": 1, "seq_length": 64},'
        ' {"until": 0.9, "seq_length": 128, "batch_size": 100}, {}]'
    )
    assert read_stages(path) == GROWING


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{", ""),
        ('{"until": 1}', "list of objects"),
        ("[1]", "list of objects"),
        ('[{}, {"layers": 1, "depth": 2}]', r"stages\[1\]: .* 'layers'"),
        ('[{"until": 0}]', r"stages\[0\]: until=0"),
        ('[{"until": "half"}]', "until='half'"),
        ('[{"seq_length": 12.5}]', r"seq_length=12\.5"),
        ('[{"num_hidden_layers": 0}]', r"stages\[0\]: num_hidden_layers=0"),
    ],
)
def test_what_no_stages_are_is_named_with_the_file(tmp_path, text, message):
    path = tmp_path / "stages.json"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"stages\.json: .*{message}") as error:
        read_stages(path)
    assert "\n" not in str(error.value)


def test_each_update_is_of_a_stage():
    assert stage_ends(GROWING, 1000) == [250, 900, 1000]
    assert stage_ends(GROWING, 10) == [2, 9, 10]  # the nearest; of two, the even one


@pytest.mark.parametrize(
    ("shares", "steps", "message"),
    [
        ((0.5, 0.5, 1), 10, r"\[0\.5, 0\.5, 1\]"),
        ((0.2, 0.5), 10, r"\[0\.2, 0\.5\]"),
        ((0.04, 1), 10, r"steps=10, .*\[0, 10\]"),
        ((0.5, 0.52, 1), 10, r"\[5, 5, 10\]"),
    ],
)
def test_ends_that_do_not_ascend_are_refused(shares, steps, message):
    stages = [Stage(until=share) for share in shares]
    with pytest.raises(InputError, match=message):
        stage_ends(stages, steps)


def test_what_is_left_out_is_the_runs_and_keeps_its_tokens_an_update():
    recipe = PretrainingRecipe(stages=GROWING, steps=1000, warmup_steps=10).replace(
        batch_size=32, seq_length=256, max_predictions=20, masked_lm_prob=0.2
    )
    assert recipe.stage_ends == [250, 900, 1000]
    first, second, last = (recipe.for_stage(stage) for stage in recipe.all_stages)
    assert (first.batch_size, first.examples.seq_length) == (128, 64)  # 8192 tokens
    assert first.examples.predictions == 13  # ceil(0.2 · 64)
    assert (second.batch_size, second.examples.seq_length) == (100, 128)
    assert last == recipe.replace(stages=())
    assert first.examples.masked_lm_prob == 0.2
    assert (last.all_stages, last.stage_ends) == ((Stage(),), [1000])


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"seq_length": 100}, r"stages\[0\]: seq_length=100 does not divide 8192 tokens: n"),
        ({"seq_length": 4}, r"stages\[0\]: seq_length=4 must be at least 5"),
    ],
)
def test_a_stage_without_examples_or_with_half_ones_is_refused(stage, message):
    stages = parse_stages([{"until": 0.5, **stage}, {}])
    with pytest.raises(InputError, match=message):
        PretrainingRecipe().replace(batch_size=64, seq_length=128, stages=stages)
