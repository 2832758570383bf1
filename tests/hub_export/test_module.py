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


@pytest.mark.parametrize("name", WITH_TRAINING)
def test_module_2_training_is_optional_and_false(name, modules, arguments):
    module, inputs = modules[name], arguments[name]
    assert sorted(rest for _, *rest in traces(module)) == [[False, None], [True, None]]
    assert all(spec.shape[0] is None for spec in tf.nest.flatten([given for given, *_ in traces(module)]))
    for given in (module(inputs, training=False), module(inputs, False, None), module(inputs, mask=None)):
        for left_out, tensor in zip(flat(module(inputs)), flat(given), strict=True):
            np.testing.assert_array_equal(left_out, tensor)


@pytest.mark.parametrize("name", MODULES)
def test_module_5_and_6_calls_use_no_variable_that_is_not_listed(name, modules):
    module = modules[name]
    assert list(module.regularization_losses) == []
    if name not in TRAINED:
        assert [*module.variables, *module.trainable_variables] == []
        return
    captured = [x for function in module.__call__.concrete_functions for x in function.captured_inputs]
    used = {tensor.ref() for tensor in captured if tensor.dtype == tf.resource}
    assert used <= {variable.handle.ref() for variable in module.variables}
