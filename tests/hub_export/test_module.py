"""The contract's points for every module, one test each, on modules that were saved and loaded."""

import numpy as np
import pytest
import tensorflow as tf

MODULES = (
    "preprocessor",
    "preprocessor.tokenize",
    "preprocessor.tokenize_with_offsets",
    "preprocessor.bert_pack_inputs",
    "encoder",
    "encoder.mlm",
    "encoder.sop",
)
TRAINED = MODULES[4:]
WITH_TRAINING = (*MODULES[:3], *TRAINED)


@pytest.fixture(scope="module")
def modules(preprocessor, encoder):
    found = {}
    for path in MODULES:
        root, *rest = path.split(".")
        module = {"preprocessor": preprocessor, "encoder": encoder}[root]
        for name in rest:
            module = getattr(module, name)
        found[path] = module
    return found


@pytest.fixture(scope="module")
def arguments(preprocessor, inputs, tensors):
    """What each module is called with."""
    text = tf.constant(["A stone wall", "", "the sea"])
    tokens = preprocessor.tokenize(text)
    return {
        **dict.fromkeys(MODULES[:3], text),
        "preprocessor.bert_pack_inputs": [tokens, tokens],
        "encoder": tensors,
        "encoder.mlm": inputs,
        "encoder.sop": tensors,
    }


def traces(module):
    """The positional arguments of everything that was traced of a module's call."""
    return [function.structured_input_signature[0] for function in module.__call__.concrete_functions]


def flat(outputs):
    return tf.nest.flatten(outputs, expand_composites=True)


@pytest.mark.parametrize("name", MODULES)
def test_module_1_and_4_one_positional_argument_of_any_batch(name, modules, arguments):
    for inputs, *_ in traces(modules[name]):
        assert all(spec.shape[0] is None for spec in tf.nest.flatten(inputs))
    outputs = modules[name](arguments[name])
    assert isinstance(outputs, tf.Tensor | tf.RaggedTensor | list | dict)


@pytest.mark.parametrize("name", WITH_TRAINING)
def test_module_2_training_is_optional_and_false(name, modules, arguments):
    module, inputs = modules[name], arguments[name]
    assert sorted(rest for _, *rest in traces(module)) == [[False, None], [True, None]]
    for given in (module(inputs, training=False), module(inputs, False, None), module(inputs, mask=None)):
        for left_out, tensor in zip(flat(module(inputs)), flat(given), strict=True):
            np.testing.assert_array_equal(left_out, tensor)


def test_module_3_every_permitted_combination_is_traced(modules, arguments):
    assert len(traces(modules["preprocessor.bert_pack_inputs"])) == 2 + 2 * 2
    tokens, _ = arguments["preprocessor.bert_pack_inputs"]
    for segments in ([tokens], [tokens, tokens]):
        for length in ({}, {"seq_length": 9}, {"seq_length": tf.constant(9)}):
            packed = modules["preprocessor.bert_pack_inputs"](segments, **length)
            assert packed["input_word_ids"].shape == [3, 9 if length else 24]


@pytest.mark.parametrize("name", MODULES)
def test_module_5_and_6_variables_are_all_that_calls_use(name, modules):
    module = modules[name]
    listed = {variable.handle.ref() for variable in module.variables}
    used = {
        tensor.ref()
        for function in module.__call__.concrete_functions
        for tensor in function.captured_inputs
        if tensor.dtype == tf.resource
    }
    if name in TRAINED:
        assert used <= listed
        assert len(listed) == len(module.variables) > 20
    else:
        assert listed == set()
    assert {v.ref() for v in module.trainable_variables} <= {v.ref() for v in module.variables}
    assert all(variable.trainable for variable in module.trainable_variables)
    assert list(module.regularization_losses) == []
