"""Ratios are of turns of one round; the table says what took how long."""

from benchmarks.peers.compared import CASES
from benchmarks.peers.results import Turn, heading, line, ratio

FORWARD, UPDATE, TEXT = (
    CASES[name] for name in ("forward-8x128-float32", "update-8x128-float32", "text-32x128-float32")
)


def turns(*values, peak=0):
    return [None if value is None else Turn([value], peak) for value in values]


def test_a_ratio_is_the_median_of_those_of_the_rounds():
    # A machine that slows down: 2, 3 and 2.5 times, though 10 / 2 of the medians is 5.
    rounds = {"ours": turns(1, 2, 40), "openvino": turns(2, 6, 100)}
    assert ratio(rounds, "openvino") == 2.5
    assert ratio(rounds, "ours") == 1
    rounds = {"ours": turns(1, 10, 2), "openvino": turns(3, 10, 20)}
    assert ratio(rounds, "openvino") == 3
    rounds = {"ours": turns(1, None, 4), "openvino": turns(2, 100, None)}
    assert ratio(rounds, "openvino") == 2
    assert ratio({"ours": turns(None), "openvino": turns(1)}, "openvino") is None


def test_the_table():
    measured = {
        FORWARD: {"ours": turns(0.46123), "matmul": turns(0.4), "openvino": turns(0.23)},
        UPDATE: {"ours": turns(1.835, peak=2_510_000_000), "model_garden": turns(3.67, peak=3_500_000_000)},
        TEXT: {"ours": turns(8.0), "model_garden": turns(None), "openvino": turns(8.4)},
    }
    peers = ["ours", "matmul", "model_garden", "openvino"]
    lines = [line(case, rounds, peers, 80 * 10**9, 256) for case, rounds in measured.items()]
    assert [*heading(peers).splitlines(), *lines] == [
        "| case | ours | MatMul of the same shapes | Model Garden | OpenVINO |",
        "|---|---|---|---|---|",
        "| forward-8x128-float32 | 461 ms | 0.87, 200 GFLOP/s | – | 0.50 |",
        "| update-8x128-float32 | 1835 ms, 2.5 GB | – | 2.00, 3.5 GB |  |",
        "| text-32x128-float32 | 32.0 a second |  | – | 1.05 |",
    ]
