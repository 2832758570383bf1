"""Values of JSON that nobody can compute with, or write again, are named with their place."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError, check_json, check_whole
from albert_tf.io import dump_json, json_object, json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
    max_leaves=9,
)


def refuse(constant):
    raise ValueError(constant)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"a": 1e400}', "f: ['a']: inf "),
        ('{"a": [1, -Infinity]}', "f: ['a'][1]: -inf "),
        ('{"a": {"b": "x\\ud800y"}}', "f: ['a']['b']: '\\ud800' "),
        ('{"a": ["\\udc00\\ud800"]}', "f: ['a'][0]: '\\udc00' "),
        ('{"a\\udfff": 1}', "f: ['a\\udfff']: '\\udfff' "),
    ],
)
def test_the_place_of_a_value_is_named(text, named):
    for is_data in (False, True):
        with pytest.raises(InputError, match=f"^{re.escape(named)}"):
            json_object(text.encode(), "f", is_data=is_data)


def test_numbers_of_examples_have_64_bits_and_may_be_missing():
    for number in (2**64, -(2**64), 10**50):
        values = {"a": [number]}
        with pytest.raises(InputError, match=re.escape(f"f: ['a'][0]: {number} ")):
            check_json(values, "f", is_data=True)
        check_json(values, "f")  # a length of no limit, in files of transformers
    check_json({"a": [2**64 - 1, -(2**63), "\U0001f600é"]}, "f", is_data=True)
    check_json({"a": math.nan}, "f", is_data=True)
    with pytest.raises(InputError, match=r"f: \['a'\]: nan "):
        check_json({"a": math.nan}, "f")


def test_whole_numbers():
    for value in (3, np.int64(3), np.uint8(3)):
        found = check_whole("steps", value, at_least=3, at_most=3)
        assert (found, type(found)) == (3, int)
    for value in (True, np.True_, 3.0, np.float32(3), "3", None, [3], 2, 4, np.int64(4)):
        with pytest.raises(InputError, match="steps="):
            check_whole("steps", value, at_least=3, at_most=3)


def without_infinity(value):
    """The oracle: a reader that knows the three constants, and takes them for null."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)


@given(VALUES)
def test_what_is_written_is_json_in_which_no_number_is_infinite(value):
    """By the standard, which has no NaN; all else is as it was."""
    assert json.loads(dump_json(value), parse_constant=refuse) == without_infinity(value)


def test_nan_and_infinity_are_null():
    figures = {"loss": math.nan, "auc": [math.inf, (-math.inf, 0.5)], "f1": 1, "n": {"x": "NaN"}}
    expected = {"loss": None, "auc": [None, [None, 0.5]], "f1": 1, "n": {"x": "NaN"}}
    assert json.loads(dump_json(figures), parse_constant=refuse) == expected
    assert json.loads(json_text(figures), parse_constant=refuse) == expected
