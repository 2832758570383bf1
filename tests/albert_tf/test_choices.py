"""The words of flags are those of the tables that say what each word means."""

import tf_keras as keras

from albert_tf import constants
from albert_tf.conversion.convert import READERS, WRITERS
from albert_tf.data.prepare_files import DOCUMENT_READERS
from albert_tf.training.distribution import STRATEGIES


def test_every_word_has_its_meaning_and_every_meaning_its_word():
    assert tuple(DOCUMENT_READERS) == constants.INPUT_FORMATS
    assert tuple(READERS) == constants.READ_FORMATS
    assert tuple(WRITERS) == constants.WRITTEN_FORMATS
    assert tuple(STRATEGIES) == constants.STRATEGY_NAMES
    assert constants.AUTO not in STRATEGIES
    computed = {name: keras.mixed_precision.Policy(policy) for name, policy in constants.POLICIES.items()}
    assert {name: policy.compute_dtype for name, policy in computed.items()} == {
        x: x for x in constants.POLICIES
    }
