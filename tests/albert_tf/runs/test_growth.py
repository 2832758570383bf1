"""Networks that start from a run's weights: by the definition of what goes where."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.errors import InputError
from albert_tf.runs.build_model import build_model
from albert_tf.runs.warm_start import warm_start_from
from tests.tiny import TINY

BLOCK = "encoder/transformer/group_{}/inner_group_{}/{}"
PARTS = {
    "attention": "attention_1/self/query/kernel",
    "attention_norm": "LayerNorm/gamma",
    "ffn": "ffn_1/intermediate/dense/kernel",
    "ffn_norm": "LayerNorm_1/beta",
}
IDS = tf.constant([[2, 17, 4, 99, 3], [2, 5, 5, 3, 0]])


@pytest.fixture(scope="module")
def shared_run(run_of):
    return run_of(albert_tf.AlbertPretrainer(TINY))


def values(model) -> dict[str, np.ndarray]:
    return {variable.name.partition(":")[0]: variable.numpy() for variable in model.variables}


def grown(run, config, objective="sop", **options):
    """The growth, and the values of the model that is made with it."""
    task = {"model": "pretrainer", "sentence_objective": objective}
    growth = warm_start_from(run, config, task, **options)
    model = build_model(config, task, growth.read)
    after = values(model)
    # Everything comes from somewhere, once.
    assert sorted([*growth.origins, *growth.newly_initialized]) == sorted(after)
    assert not set(growth.origins) & set(growth.newly_initialized)
    return growth, model, after


def test_deeper_with_shared_layers_is_the_same_network_for_longer(shared_run):
    growth, model, after = grown(shared_run, TINY.replace(num_hidden_layers=7))
    before = albert_tf.load(shared_run)
    for name, value in values(before).items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    ours = model.encoder({"input_word_ids": IDS})["encoder_outputs"]
    theirs = before.encoder({"input_word_ids": IDS})["encoder_outputs"]
    assert len(ours) == 7
    for layer in range(3):
        np.testing.assert_allclose(ours[layer], theirs[layer], atol=1e-6)
    assert growth.newly_initialized == growth.unused == ()
    assert growth.listing() == [f"copied: {len(after)} variables"]


def test_unshared_layers_are_repeated_in_order(run_of):
    config = TINY.replace(num_hidden_layers=2, sharing="none")
    run = run_of(albert_tf.AlbertPretrainer(config))
    before = values(albert_tf.load(run))
    _, _, after = grown(run, config.replace(num_hidden_layers=4))
    for layer, origin in enumerate([0, 0, 1, 1]):
        for part in PARTS.values():
            np.testing.assert_array_equal(
                after[BLOCK.format(layer, 0, part)], before[BLOCK.format(origin, 0, part)]
            )
    growth, _, shallow = grown(run, config.replace(num_hidden_layers=1))
    for part in PARTS.values():
        np.testing.assert_array_equal(shallow[BLOCK.format(0, 0, part)], before[BLOCK.format(0, 0, part)])
    assert growth.unused
    assert all("/group_1/" in name for name in growth.unused)
    assert growth.listing()[-1] == "not copied: layer 2"


@pytest.mark.parametrize(("source", "target"), [("all", "none"), ("ffn", "attention"), ("attention", "ffn")])
def test_every_sharing_to_every_other(source, target, run_of):
    """Layer l of four takes the blocks of layer l // 2 of two, whichever those are."""
    own = {"all": "", "attention": "ffn", "ffn": "attention", "none": "attention ffn"}
    run = run_of(albert_tf.AlbertEncoder(TINY.replace(num_hidden_layers=2, sharing=source)))
    here = TINY.replace(num_hidden_layers=4, sharing=target)
    origins = warm_start_from(run, here, {"model": "encoder"}).origins
    for kind in ("attention", "ffn"):
        layers = range(4) if kind in own[target] else [0]
        for layer in layers:
            expected = layer // 2 if kind in own[source] else 0
            assert origins[BLOCK.format(layer, 0, PARTS[kind])] == BLOCK.format(expected, 0, PARTS[kind])


def test_inner_groups_keep_their_place(run_of):
    config = TINY.replace(num_hidden_layers=2, inner_group_num=2)
    run = run_of(albert_tf.AlbertPretrainer(config))
    before = values(albert_tf.load(run))
    _, _, after = grown(run, config.replace(num_hidden_layers=4, num_hidden_groups=2))
    for group in range(2):
        for inner in range(2):
            for part in PARTS.values():
                np.testing.assert_array_equal(
                    after[BLOCK.format(group, inner, part)], before[BLOCK.format(0, inner, part)]
                )


def test_positions(shared_run):
    name = "embeddings/position_embeddings"
    before = values(albert_tf.load(shared_run))[name]
    growth, _, after = grown(shared_run, TINY.replace(max_position_embeddings=40))
    np.testing.assert_array_equal(after[name], before[:40])
    assert "positions: 64 in the run, 40 here" in growth.listing()

    longer = TINY.replace(max_position_embeddings=150)
    with pytest.raises(InputError, match="max_position_embeddings=150"):
        grown(shared_run, longer)
    growth, _, after = grown(shared_run, longer, extend_positions=True)
    np.testing.assert_array_equal(after[name], np.concatenate([before, before, before[:22]]))
    assert "positions: 64 in the run, 150 here" in growth.listing()


@pytest.mark.parametrize(("offset", "pooler"), [(0, "tanh"), (2, "none")])
def test_positions_that_the_run_has_not_trained_are_copies_too(offset, pooler, run_of):
    config = TINY.replace(position_offset=offset, pooler=pooler)
    run = run_of(albert_tf.AlbertPretrainer(config, sentence_objective="none"))
    name = "embeddings/position_embeddings"
    before, trained = np.split(values(albert_tf.load(run))[name][: offset + 24], [offset])
    for positions in (16, 64, 70):
        here = config.replace(max_position_embeddings=positions)
        growth, _, after = grown(run, here, "none", extend_positions=True, trained_positions=24)
        repeats = [trained] * (positions // 24)
        expected = np.concatenate([before, *repeats, trained[: positions % 24]])
        np.testing.assert_array_equal(after[name], expected)
        assert f"positions: 24 in the run, {positions} here" in growth.listing()


def test_heads_that_the_run_lacks_start_fresh(run_of):
    run = run_of(albert_tf.AlbertEncoder(TINY))
    growth, _, _ = grown(run, TINY)
    assert all(name.startswith("cls/") for name in growth.newly_initialized)
    assert "fresh: cls/predictions/transform/dense/kernel" in growth.listing()


def test_a_sentence_head_of_another_objective_starts_fresh(shared_run):
    growth, _, after = grown(shared_run, TINY, objective="nsp")
    assert growth.newly_initialized == (
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    )
    assert growth.unused == ("cls/seq_relationship/output_bias", "cls/seq_relationship/output_weights")
    assert not after["cls/seq_relationship/output_bias"].any()
    assert grown(shared_run, TINY, objective="none")[0].newly_initialized == ()


@pytest.mark.parametrize(
    "changes",
    [{"hidden_size": 64}, {"embedding_size": 8}, {"num_attention_heads": 2}, {"hidden_act": "relu"}],
)
def test_other_widths_are_refused(shared_run, changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        warm_start_from(shared_run, TINY.replace(**changes), {"model": "encoder"})


def test_one_of_the_two_may_have_no_pooler(run_of):
    without = TINY.replace(pooler="none", position_offset=2)
    run = run_of(albert_tf.AlbertPretrainer(without, sentence_objective="none"))
    longer = without.with_pooler().replace(max_position_embeddings=70)
    growth, _, after = grown(run, longer, "none", extend_positions=True)
    assert growth.newly_initialized == ("pooler/dense/kernel", "pooler/dense/bias")
    table = values(albert_tf.load(run))["embeddings/position_embeddings"]
    expected = np.concatenate([table, table[2:8]])  # the rows before the first position are not repeated
    np.testing.assert_array_equal(after["embeddings/position_embeddings"], expected)
    pooled = run_of(albert_tf.AlbertPretrainer(longer))
    assert grown(pooled, longer.replace(pooler="none"), "none")[0].newly_initialized == ()
    assert (
        grown(pooled, longer.replace(pooler="relu"))[0].newly_initialized == growth.newly_initialized
    )  # which is another function
    for changes in ({"position_offset": 0}, {"type_vocab_size": 1}):
        with pytest.raises(InputError, match=f"another network: {next(iter(changes))} is"):
            grown(pooled, longer.replace(**changes))


def test_a_network_without_segment_types_leaves_them_out(run_of):
    typed = run_of(albert_tf.AlbertPretrainer(TINY))
    growth, _, after = grown(typed, TINY.replace(type_vocab_size=0))
    before = values(albert_tf.load(typed))
    assert growth.unused == ("embeddings/token_type_embeddings",)
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    untyped = run_of(albert_tf.AlbertPretrainer(TINY.replace(type_vocab_size=0)))
    with pytest.raises(InputError, match="type_vocab_size is 0 there"):
        grown(untyped, TINY)
