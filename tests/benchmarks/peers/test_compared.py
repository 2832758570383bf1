"""Cases, inputs and sentences, and that every peer has its environment and its file."""

import re
from pathlib import Path

import numpy as np

from benchmarks.peers.compared import CASES, PEERS, encoder_inputs, pretraining_batch, read_sentences

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "benchmarks/peers"


def test_inputs_have_no_padding_and_are_the_same_each_time():
    case = CASES["update-8x128-float32"]
    batch = pretraining_batch(case, vocab_size=100)
    assert {name: array.shape for name, array in batch.items()} == {
        **dict.fromkeys(["input_word_ids", "input_mask", "input_type_ids"], (8, 128)),
        **dict.fromkeys(["masked_lm_positions", "masked_lm_ids", "masked_lm_weights"], (8, 20)),
        "sentence_order_labels": (8,),
    }
    assert batch["input_mask"].all() and not batch["input_type_ids"].any()
    assert batch["input_word_ids"].min() >= 5 and batch["input_word_ids"].max() < 100
    for row in batch["masked_lm_positions"]:
        assert len(set(row)) == 20 and sorted(row) == row.tolist() and row[0] >= 0 and row[-1] < 128
    for name, array in pretraining_batch(case, vocab_size=100).items():
        np.testing.assert_array_equal(array, batch[name])
    np.testing.assert_array_equal(encoder_inputs(case, 100)["input_word_ids"], batch["input_word_ids"])


def test_sentences_of_both_forms(tmp_path):
    table, lines = tmp_path / "dev.tsv", tmp_path / "text.txt"
    table.write_text("sentence\tlabel\nit 's \"good .\t1\nbad .\t0\n", encoding="utf-8")
    lines.write_text("One.\n\n  Two. \nThree.\n", encoding="utf-8")
    assert read_sentences(table, 9) == ["it 's \"good .", "bad ."]
    assert read_sentences(lines, 2) == ["One.", "Two."]


def test_every_peer_has_a_file_and_an_environment_that_make_creates():
    programs = {path.stem for path in (FOLDER / "programs").glob("*.py")}
    assert {peer.module for peer in PEERS.values()} == programs
    lists = {path.stem.removeprefix("requirements-") for path in FOLDER.glob("requirements-*.txt")}
    (made,) = re.findall(r"^PEERS *:= (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {peer.environment for peer in PEERS.values()} - {None} == lists == set(made.split())
