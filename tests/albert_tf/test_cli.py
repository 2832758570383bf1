"""The command line: what users type, and one line for every mistake."""

import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys

import pytest

import albert_tf
from albert_tf import PRESETS, cli
from albert_tf.recipes import Stage
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from tests.albert_tf.commands import ROOT, mistake, pretraining
from tests.tiny import TINY


@pytest.mark.slow
def test_vocab_pretrain_prepare_evaluate_and_curve(tiny_corpus, tmp_path, capsys):
    """A vocabulary remembers how text was normalised: flags need not be typed again, others are refused."""
    vocabulary, run, prepared = tmp_path / "new/v.model", tmp_path / "run", tmp_path / "prepared"
    assert "ж" not in tiny_corpus.read_text(encoding="utf-8")
    (tmp_path / "other.txt").write_text("ж жж жжж\n" * 50, encoding="utf-8")
    words = ["vocab", "--input", tiny_corpus, "--input", tmp_path / "other.txt", "--output", vocabulary]
    assert cli.run([*map(str, words), "--vocab_size", str(TINY.vocab_size), "--nolowercase"]) == 0
    assert capsys.readouterr().out == f"{vocabulary}: {TINY.vocab_size} pieces\n"
    assert any("ж" in piece for piece in SentencePieceVocabulary.from_file(vocabulary).pieces)
    changes = {"optimizer": "adamw", "log_every": 1}
    pretrain = pretraining(tiny_corpus, vocabulary, run, TINY.replace(num_hidden_layers=1), **changes)
    prepare = ["prepare", "--input", str(tiny_corpus), "--vocabulary", str(vocabulary)]
    prepare += ["--output", str(prepared)]
    for words in (pretrain, prepare):
        line = mistake(capsys, *words, "--nolowercase", "--nostrip_accents")
        assert "strip_accents=False" in line and "v.tokenizer.json" in line
    assert not run.exists() and not prepared.exists()
    assert cli.run(pretrain) == cli.run([*prepare, "--shards", "1"]) == 0
    kept = {"lowercase": False, "strip_accents": True}
    assert json.loads((run / "tokenizer.json").read_text()) == {"kind": "sentencepiece", **kept}
    stats = json.loads((prepared / "stats.json").read_text())
    assert {name: stats[name] for name in kept} == kept
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["optimizer"] == "adamw"
    assert recipe["command"].startswith("albert-tf pretrain --config ")
    capsys.readouterr()
    evaluate = ["evaluate", "--run", str(run), "--input", str(tiny_corpus), "--max_examples", "4"]
    assert cli.run([*evaluate, "--batch_size", "4"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {"eval_mlm_loss", "eval_sop_accuracy", "eval_mlm_unigram_entropy"} <= set(figures)
    assert figures["examples"] == 4
    assert cli.run(["analyse", "curve", "--run", str(run)]) == 0
    assert capsys.readouterr().out == f"{run / 'curve.png'}\n"
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_stages_come_from_a_file(tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(
        "albert_tf.pretraining.pretrain.pretrain", lambda settings, **_: asked.append(settings)
    )
    words = functools.partial(pretraining, tiny_corpus, tiny_vocabulary, tmp_path / "run")
    path = tmp_path / "stages.json"
    path.write_text('[{"until": 0.5, "num_hidden_layers": 1, "seq_length": 16}, {}]')
    assert cli.run(words(stages=path)) == cli.run(words(stages="none")) == 0
    growing = (Stage(until=0.5, num_hidden_layers=1, seq_length=16), Stage())
    assert [settings.recipe.stages for settings in asked] == [growing, ()]
    # A preset's own stages are of other lengths than the one that is named.
    for more in ([], ["--seq_length", 32]):
        places = ["--train", tiny_corpus, "--vocabulary", tiny_vocabulary, "--output", tmp_path / "bert"]
        assert cli.run([*map(str, ["pretrain", "--config", "bert_base", *places, *more])]) == 0
    assert [len(settings.recipe.stages) for settings in asked[2:]] == [2, 0]
    assert "nowhere.json: No such file" in mistake(capsys, *words(stages="nowhere.json"))


def test_a_recipe_of_another_family_is_said(tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("albert_tf.pretraining.pretrain.pretrain", lambda *_, **__: None)
    bert = TINY.replace(sharing="none", embedding_size=TINY.hidden_size)
    words = functools.partial(pretraining, tiny_corpus, tiny_vocabulary, tmp_path / "run")
    assert cli.run(words(recipe="albert_base_v1")) == cli.run(words(bert, recipe="bert_base")) == 0
    assert not caplog.records
    assert cli.run(words(bert)) == 0
    (line,) = caplog.messages
    assert "--recipe albert_base_v1" in line and "bert_base_uncased" in line and "roberta" not in line


def test_text_is_read_as_for_the_origin(tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch):
    asked, origin = [], tmp_path / "origin"
    monkeypatch.setattr(
        "albert_tf.pretraining.pretrain.pretrain", lambda settings, **_: asked.append(settings)
    )
    cased = {"lowercase": False, "strip_accents": False}
    albert_tf.save(albert_tf.AlbertEncoder(TINY), origin, tiny_vocabulary, tokenizer=cased)
    words = pretraining(tiny_corpus, tiny_vocabulary, tmp_path / "run", init_from=origin)
    assert cli.run(words) == cli.run([*words, "--nolowercase"]) == 0
    # A run that has begun is its own origin, as the one that it began from may be gone.
    albert_tf.save(
        albert_tf.AlbertEncoder(TINY), tmp_path / "run", tiny_vocabulary, tokenizer=cased, recipe={}
    )
    assert cli.run(words) == 0
    assert [(x.lowercase, x.strip_accents) for x in asked] == [(False, False)] * 3


def test_convert_says_what_it_did_not_read(golden, tmp_path, capsys):
    source = golden / "tf1" / "groups"
    output = tmp_path / "run"
    words = ["convert", "--from", "google", "--to", "run", "--input", source, "--output", output]
    assert cli.run([str(word) for word in words]) == 0
    *_, written = lines = capsys.readouterr().out.splitlines()
    assert "not read: global_step" in lines
    assert written == f"wrote {output}: checkpoints, config.json, recipe.json, task.json, tokenizer.json"
    assert "exists" in mistake(capsys, *words)


def test_parameters_of_the_presets(capsys):
    assert cli.run(["analyse", "parameters"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert lines[0].endswith("11,683,584")


def test_parameters_against_another_network(tmp_path, capsys):
    """The paper's 18 times: BERT-large has 334.6 million, ALBERT-large 17.7."""
    (tmp_path / "own.json").write_text('{"num_hidden_groups": 2}')
    for other, expected in (("bert_large", "18.92 ×"), (tmp_path / "own.json", "1.06 ×")):
        assert cli.run(["analyse", "parameters", "--against", str(other)]) == 0
        lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
        assert lines["albert_large_v2"].endswith(expected)
        assert lines[str(other)].endswith(" 1.00 ×")
    assert "--against albert_huge" in mistake(capsys, "analyse", "parameters", "--against", "albert_huge")


def test_mistakes_are_one_line(tiny_corpus, tiny_vocabulary, tmp_path, capsys):
    output, wide, text = tmp_path / "run", tmp_path / "wide.json", tmp_path / "text.txt"
    wide.write_text('{"hidden_size": 1200000, "num_hidden_layers": 1}')
    text.write_text("A sentence.\n")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "no.model").write_bytes(b"nothing of SentencePiece")
    (tmp_path / "web.jsonl").write_text('{"text": "A sentence."}\n' * 9)

    pretrain = functools.partial(pretraining, tiny_corpus, tiny_vocabulary, output)
    vocab = ("vocab", "--output", tmp_path / "x.model", "--input")
    cases = {
        ("fly",): "'fly'",
        ("vocab", "--input", tiny_corpus): "--output",
        (*vocab, "nowhere*.txt"): "nowhere*.txt",
        (*vocab, tiny_corpus, "--output", text / "x.model"): "x.model",
        ("pretrain", "--trian", text): "--output",
        tuple(pretrain(config="albert_huge")): "albert_huge",
        tuple(pretrain(config=wide)): "hidden_size=1200000",
        tuple(pretrain(train=tmp_path / "empty.txt")): "empty.txt",
        (*vocab, tmp_path / "web.jsonl"): "web.jsonl",
        tuple(pretrain(train=tmp_path / "web.jsonl")): "--input_format jsonl",
        tuple(pretrain(vocabulary=tmp_path / "no.model")): "no.model",
        tuple(pretrain(clip_norm="never")): "--clip_norm",
        tuple(pretrain(seq_length=99)): "seq_length=99",
        ("evaluate", "--run", tmp_path, "--input", tiny_corpus): "config.json is missing",
        ("analyse", "curve", "--run", tmp_path, "--output", "x.png"): "metrics.jsonl",
    }
    for words, expected in cases.items():
        assert expected in mistake(capsys, *words), words
    assert not output.exists()


def python(*words, **options) -> tuple[int, str, str]:
    """Status, output and errors of a Python process."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def test_the_program_ends_with_its_status_and_nothing_but_its_line():
    words = ["analyse", "parameters", "--against", "albert_huge"]
    status, output, line = python("-m", "albert_tf", *words)
    assert (status, output, line.count("\n")) == (2, "", 1)
    assert line.startswith("albert-tf analyse: --against albert_huge ")


@pytest.mark.slow
def test_a_command_that_does_well_says_nothing_on_stderr(tmp_path):
    """Nor does TensorFlow, whose import tells of CUDA and oneDNN, and brings Keras 3 unless told not to."""
    told = ("TF_CPP_MIN_LOG_LEVEL", "TF_USE_LEGACY_KERAS")
    environment = {key: value for key, value in os.environ.items() if key not in told}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 2, "loss": 5.5}\n{"step": 4, "loss": 5.0}\n')
    words = ["analyse", "curve", "--run", "run", "--output", "curve.png"]
    code = f"""
import sys
from albert_tf import cli
assert cli.run({words}) == 0
assert "tensorflow" in sys.modules and "keras" not in sys.modules
"""
    assert python("-c", code, cwd=tmp_path, env=environment) == (0, "curve.png\n", "")


@pytest.mark.parametrize(
    ("words", "status"),
    [(["-v", "0", "pretrain"], 75), (["finetune"], 75), (["distill"], 75), (["vocab"], 143)],
)
def test_sigterm_ends_a_command_with_its_status_from_the_start(words, status):
    code = f"""
import signal, sys
from albert_tf import __main__, cli
sys.argv = ["albert-tf", *{words}]
__main__.run = lambda arguments: signal.raise_signal(signal.SIGTERM)
__main__.main()
"""
    assert python("-c", code) == (status, "", "")


def test_help_and_mistakes_do_not_wait_for_tensorflow():
    lines = [[], ["--help"], ["fly"], ["vocab", "--output", "x"], ["analyse", "parameters"]]
    lines += [["plan", "--config", "albert_base_v2"]]
    lines += [[command, "--help"] for command in ("vocab", "prepare", "pretrain", "evaluate", "convert")]
    own = ["--task", "classification", "--text", "text", "--label", "kind", "--output", "out"]
    there, config = ["--train", __file__], ["--config", "albert_base_v2"]
    missing = [
        ["vocab", "--input", "no.txt", "--output", "v"],
        ["prepare", "--input", "no.txt", "--vocabulary", __file__, "--output", "out"],
        ["prepare", "--input", __file__, "--vocabulary", "no.model", "--output", "out"],
        ["pretrain", "--train", "no.txt", "--vocabulary", __file__, *config, "--output", "out"],
        ["pretrain", *there, "--vocabulary", "no.model", *config, "--output", "out"],
        ["finetune", *own, "--train", "no.csv", "--init_from", "."],
        ["finetune", *own, *there, "--init_from", "no"],
        ["finetune", "--task", "sst-2", "--data", "no", "--init_from", ".", "--output", "out"],
        ["distill", "--teacher", "no", *there, *config, "--output", "out"],
        ["distill", "--teacher", ".", *own, *there, *config, "--unlabelled", "no.csv"],
        ["evaluate", "--run", "no", "--eval", __file__],
        ["predict", "--run", "no", "--input", __file__, "--output", "out"],
        ["predict", "--run", ".", "--input", "no.csv", "--output", "out"],
        ["analyse", "layers", "--run", "no", "--input", __file__, "--output", "out"],
        ["analyse", "curve", "--run", "no"],
        ["convert", "--from", "google", "--to", "run", "--input", "no", "--output", "out"],
        ["compress", "--run", "no", "--output", "out"],
    ]
    lines += missing
    code = f"""
import contextlib, sys, time
import albert_tf.__main__, albert_tf.cli, hub_export.__main__, hub_export.check
for main, lines in (
    (lambda line: sys.exit(albert_tf.cli.run(line)), {lines}),
    (hub_export.__main__.main, [["--help"], [], ["--run", "no", "--output", "out"]]),
    (hub_export.check.check_main, [["--help"], []]),
):
    for line in lines:
        with contextlib.suppress(SystemExit):
            main(line)
heavy = {{"tensorflow", "tf_keras", "apache_beam", "matplotlib"}} & set(sys.modules)
assert not heavy, heavy
assert time.process_time() < 3, time.process_time()  # a third of it, where nothing else runs
"""
    status, output, errors = python("-c", code)
    assert status == 0, errors
    assert output.count("usage: ") == 8
    told = [line for line in errors.splitlines() if re.search(r"\bno(\.\w+)?(: no such| is neither)", line)]
    assert len(told) == len(missing) + 1, errors


def test_the_version_is_that_of_the_package(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"albert-tf {albert_tf.__version__}\n"
    assert albert_tf.__version__ == importlib.metadata.version("albert-tf")
