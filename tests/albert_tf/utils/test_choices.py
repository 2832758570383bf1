"""The words of flags are those of the tables that say what each word means."""

import tf_keras as keras

from albert_tf.conversion.convert import READERS, WRITERS
from albert_tf.preprocessing.reading import FORMATS
from albert_tf.training.strategies import STRATEGIES
from albert_tf.utils import choices


def test_every_word_has_its_meaning_and_every_meaning_its_word():
    assert tuple(FORMATS) == choices.INPUT_FORMATS
    assert tuple(READERS) == choices.READ_FORMATS
    assert tuple(WRITERS) == choices.WRITTEN_FORMATS
    assert tuple(STRATEGIES) == choices.STRATEGY_NAMES
    assert choices.AUTO not in STRATEGIES
    computed = {name: keras.mixed_precision.Policy(policy) for name, policy in choices.POLICIES.items()}
    assert {name: policy.compute_dtype for name, policy in computed.items()} == {
        x: x for x in choices.POLICIES
    }
