"""Operations that are deterministic on GPUs, too, as far as a CPU can show it."""

from pathlib import Path

import numpy as np
import pytest

from tests.albert_tf.commands import ends, pretraining, start
from tests.albert_tf.pretraining.runs import CONFIG, weights

FLAGS = {"steps": 6, "batch_size": 4, "checkpoint_every": 3, "log_every": 3, "eval_every": 0}


@pytest.mark.slow
@pytest.mark.parametrize("xla", ["--noxla", "--xla"])
def test_a_deterministic_run_is_the_same_again_and_resumed(xla, tiny_corpus, tiny_vocabulary, tmp_path):
    """With dropout, in a process of its own."""
    run, log = tmp_path / "run", tmp_path / "log"
    words = pretraining(tiny_corpus, tiny_vocabulary, run, CONFIG, **FLAGS)
    place = words.index("--output")
    words = [*words[:place], *words[place + 2 :], xla]
    script = Path(__file__).with_name("deterministic_script.py")
    assert ends([start([script, run, *words], log)], [log]) == [0], log.read_text()[-3000:]
    expected = weights(run, 6)
    for name in ("again", "resumed"):
        for variable, value in weights(f"{run}-{name}", 6).items():
            np.testing.assert_array_equal(value, expected[variable], err_msg=f"{name}: {variable}")
    assert "from step 3" in log.read_text()
