"""Every block of README.md, docs/ and examples/ does what it says, in order, in a folder with what it names.

A new block runs as it is, or fails here: name the files that it needs in tests/sandbox.py, what is true after
a block of Python in AFTERWARDS, why a command cannot run in NOT_HERE. Commands are run as they are typed, in
this process, with SMALL behind them: flags that make the work small, for the last of two counts.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

import albert_tf
import hub_export.__main__ as exporting
from albert_tf import AlbertConfig, cli
from albert_tf.conversion import download
from albert_tf.conversion.convert import convert
from albert_tf.recipes import PRETRAINING_RECIPES, parse_stages, stage_ends
from tests.albert_tf.conversion.loopback import Answer, instead_of_hugging_face, packed, put_repository, serve
from tests.pages import ROOT, anchors, blocks, commands, links, pages
from tests.sandbox import write_sandbox

# Pages whose blocks other tests run: their commands are only understood here.
ELSEWHERE = {
    "examples/serving/README.md": "tests/hub_export/test_serving_clients.py",
    "examples/runtimes/README.md": "tests/examples/test_runtimes.py",
}

# Beginnings of commands that are not run, each with the reason.
NOT_HERE = {
    r"make demo": "minutes of training",
    r"make test": "this is one of its tests",
    r"(dask |.* --runner DaskRunner)": "a cluster; tests/albert_tf/data/test_dask.py has one",
    r"albert-tf pretrain .* --strategy (tpu|mirrored|multi_worker) ": "TPUs, GPUs, other hosts",
    r"(export TF_CONFIG=|HOSTS=|cd |sbatch |kubectl )": "other hosts; test_several_hosts.py has processes",
    r"python examples/several_hosts/": "a service; tests/albert_tf/data/test_pretraining.py has one",
    r"export TF_XLA_FLAGS=": "GPUs, and whoever comes after in this process",
    r"local_repository\(": "a line of Bazel's WORKSPACE",
    r"apt-get install": "system packages",
    r"(pip download|python -m zipfile)": "a package; test_published_weights.py reads it",
    r"MODELS=.* docker compose": "Docker",
    r"albert-tf distill --num_hidden_layers": "examples/finetune/README.md has it for another task",
    r"python -m hub_export .* --dtype ": "seconds each; tests/hub_export exports all types",
    r"python -m benchmarks.paper ": "hours; tests/benchmarks/test_paper.py trains one table",
    r"python examples/serving/": "a server; tests/hub_export/test_serving_clients.py has one",
}

# By how a command begins; the first that fits.
SMALL = {
    "finetune --task sst-2 --data SST-2 --init_from run --output six": "--num_hidden_layers 2 --steps 2",
    "distill --task sst-2 --data SST-2 --teacher twelve": "--num_hidden_layers 2 --steps 2 --batch_size 8",
    "finetune --num_hidden_layers": "--num_hidden_layers 2 --steps 2 --batch_size 8 --seq_length 32",
    "vocab --kind": "--vocab_size 400",
    "vocab": "--vocab_size 90",
    "plan --time": "--config tiny.json --against none --batch_size 4 --seq_length 32",
    "pretrain --recipe one_machine --budget": "--batch_size 4 --budget 3s",
    "pretrain": "--config tiny.json --batch_size 4 --seq_length 32 --steps 4 --warmup_steps 1",
    "compress": "--embedding_size 16",
    "distill --teacher bert --config": "--config tiny.json --batch_size 4 --seq_length 32 --steps 4",
    "distill --teacher bert": "--batch_size 4 --seq_length 32 --steps 4 --warmup_steps 1",
    "distill --task classification --teacher bert-sentiment": "--epochs 2 --batch_size 8 --seq_length 32",
    "distill --teacher teacher": "--epochs 2 --batch_size 8 --seq_length 32",
    "distill": "--config tiny.json --batch_size 4 --seq_length 32 --steps 4 --warmup_steps 1",
    "finetune": "--epochs 2 --batch_size 8 --seq_length 32",
    "prepare": "--shards 1",
}

# What stands for the flags that `...` leaves out.
OMITTED = ["--train", "corpus/*.txt", "--output", "grown"]

# What is true after a block of Python, by a part of it.
AFTERWARDS = {
    "print(model.predict_labels(": """
import numpy as np
assert model.predict_labels(["Only today: two for one."])[0] in ("advert", "article")
np.testing.assert_allclose(model.predict_proba(["Only today!"]).sum(), 1, atol=1e-6)
""",
    "for answer in answers])": """
assert len(answers) == 3 and max(abs(question @ answer) for answer in answers) <= 1 + 1e-6
""",
    'print(outputs["pooled_output"]': """
import numpy as np
assert outputs["pooled_output"].shape == (2, 32) and np.isfinite(outputs["pooled_output"]).all()
assert encoder.trainable_weights and not preprocessor.trainable_weights
""",
    'custom_objects={"KerasLayer"': """
import numpy as np
losses = classifier.history.history["loss"]
assert len(losses) == 3 and np.isfinite(losses).all()
texts = tf.constant(["Buy a function!"])
np.testing.assert_allclose(again.predict(texts), classifier.predict(texts), atol=1e-6)
""",
    "bert_pack_inputs, arguments=": """
import numpy as np
assert inputs["input_word_ids"].shape.as_list() == [None, 64]
assert logits.shape == (2, 2) and np.isfinite(logits).all() and len(model.trainable_weights) > 20
types = tf.keras.Model([question, answer], inputs["input_type_ids"]).predict([questions, answers])
assert 0 < types.sum() < types.size
""",
    "WarmupPolynomialDecay(": """
import numpy as np
assert np.isfinite(history.history["val_loss"]).all() and len(model.trainable_weights) > 20
""",
    "scores = index @ query": """
assert index.shape[0] == 3 and scores.shape == (3,) and abs(scores).max() <= 1 + 1e-6
np.testing.assert_allclose(np.linalg.norm(index, axis=1), 1, atol=1e-6)
""",
    'Path("names.conll")': """
assert Path("names.conll").read_text("utf-8").startswith("Anna\\tB-PER\\nlives\\tO\\n")
""",
    'pipeline("names")': """
answer = tag("Anna met Paul Klee.")
assert all("Anna met Paul Klee."[one["start"] : one["end"]] == one["text"] for one in answer)
""",
    "backbone.trainable = False": """
import numpy as np
assert states.shape[:2] == (1, 64) and np.isfinite(states).all() and not backbone.trainable_weights
""",
    "GridSearchCV(": """
assert len(out_of_fold) == len(texts) and search.best_params_["learning_rate"] in (1e-5, 3e-5)
""",
    "class HubLayer(": """
import numpy as np
texts = tf.constant(["A function is an object.", "Buy now!"])
np.testing.assert_allclose(again.predict(texts), model.predict(texts), atol=1e-6)
before = [weight.numpy() for weight in again.trainable_weights]
assert np.isfinite(again.fit(texts, tf.constant([0, 1]), verbose=0).history["loss"]).all()
changed = [(weight.numpy() != old).any() for weight, old in zip(again.trainable_weights, before)]
assert len(changed) > 20 and np.mean(changed) > 0.9  # not a bias of keys, whose gradient is 0
ones = {f"input_{name}": np.ones([2, 8], "int32") for name in ("word_ids", "mask", "type_ids")}
assert keras.layers.TFSMLayer("demo-output/hub/encoder")(ones)["pooled_output"].shape == (2, 32)
""",
    'model.save("advert.keras")': """
import numpy as np
assert logits.shape == (1, 2) and np.isfinite(logits).all()
again = albert_tf.TextClassifier.load("advert.keras")
np.testing.assert_array_equal(again.predict(["Dull."]), model.predict(["Dull."]))
assert labels == [("advert", "article")[logits.argmax()]]
assert answers[0]["label"] in ("advert", "article") and 0.5 <= answers[0]["score"] <= 1
""",
    "pandas.read_csv(": """
import numpy as np
assert np.isfinite(history.history["loss"]).all() and len(history.history["val_auc"]) >= 3
""",
    "cross_val_score(": """
assert estimator.classes_.tolist() == [0, 1] and estimator.predict(["Only today!"])[0] in (0, 1)
""",
    "ids = tokenizer([": """
assert inputs["input_word_ids"].shape == (2, 64) and inputs["input_word_ids"][0, 0] == 2
assert [len(row) for row in ids.to_list()] == [int(sum(row)) - 2 for row in inputs["input_mask"]]
assert outputs["pooled_output"].shape == (2, 32) and outputs["sequence_output"].shape == (2, 64, 32)
""",
    'TASK_SPECS["verdicts"]': """
import json
lines = [json.loads(line) for line in open("verdicts/metrics.jsonl")]
assert {"eval_f1", "eval_accuracy"} <= set().union(*lines)
assert json.load(open("verdicts/task.json"))["best_by"] == "eval_f1"
""",
    "class CharacterTokenizer(": """
(batch,) = batches.take(1)
pieces = np.array(CharacterVocabulary.from_file("characters.txt").pieces)
whole = batch["input_word_ids"].numpy()
np.put_along_axis(whole, batch["masked_lm_positions"].numpy(), batch["masked_lm_ids"].numpy(), axis=1)
texts = Path("corpus/text.txt").read_text().lower().split()
words = "".join(pieces[whole[0]]).split("[SEP]")[0].removeprefix("[CLS]").split()[1:-1]
assert len(words) > 2 and set(words) <= set(texts) | {word.replace("[UNK]", "") for word in words}
""",
    'PRESETS["shallow_small"]': """
assert states.shape == (1, 4, 64) and encoder.config.family != "albert"
layers = [name for name in (x.name for x in encoder.trainable_variables) if "query/kernel" in name]
assert len(layers) == 3
""",
    "keras.layers.Dense(3)": """
import numpy as np
again = keras.models.load_model("own.keras")
np.testing.assert_allclose(again.predict(batches), model.predict(batches), atol=1e-6)
assert model.predict(batches).shape == (2, 3)
assert np.isfinite(again.fit(batches, verbose=0).history["loss"]).all()
""",
    'pipeline("demo-output/run")': """
assert len(fill(["A [MASK]."])[0]) == 5
""",
    "parameter_count(base": """
assert sharing == "none" and albert_tf.parameter_count(base)["total"] == 11_683_584
""",
    "sorted(albert_tf.PRESETS)": """
assert config.num_hidden_layers == 6 and albert_tf.parameter_count(config)["total"] == 11_683_584
""",
    "AlbertPretrainer(": """
import numpy as np
assert outputs["mlm_logits"].shape[::2] == (8, 30000) and outputs["sop_logits"].shape == (8, 2)
assert outputs["sequence_output"].shape == (8, 128, 768)
np.testing.assert_equal(albert_tf.load("other_run").get_weights(), model.get_weights())
""",
    'answers["label"]': """
assert answers["label"].numpy()[0] in (b"good", b"bad") and 0.5 <= answers["score"].numpy()[0] <= 1
""",
}

SECTIONS = [
    (page, heading, list(found))
    for page in pages()
    if page not in ELSEWHERE
    for heading, found in groupby(blocks(page), lambda block: block.heading)
]


@pytest.fixture(scope="module")
def sandbox(tiny_vocabulary, made_once) -> Path:
    """A folder with what the pages name and do not make."""
    return made_once("sandbox", lambda folder: write_sandbox(folder, tiny_vocabulary))


@pytest.fixture(scope="module")
def publishers(sandbox, tmp_path_factory):
    """Servers on loopback that publish the run of the sandbox by the names of the pages."""
    scratch = tmp_path_factory.mktemp("published")
    for target in ("google", "huggingface"):
        convert("run", target, sandbox / "run", scratch / target)
    with pytest.MonkeyPatch.context() as patch, serve() as server:
        server.answers["/albert_base_v2.tar.gz"] = Answer(packed(scratch / "google"))
        put_repository(server, "albert/albert-base-v2", scratch / "huggingface")
        patch.setattr(download, "_ARCHIVES_URL", f"{server.address}/")
        patch.setenv("no_proxy", "127.0.0.1,localhost")
        patch.setenv("ALBERT_TF_CACHE", str(scratch / "cache"))
        instead_of_hugging_face(server.address, scratch / "home", patch)
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    "section", [pytest.param(found, id=f"{page}-{heading}") for page, heading, found in SECTIONS]
)
def test_the_blocks_of_a_section(section, sandbox, publishers, tmp_path, monkeypatch):
    folder = shutil.copytree(sandbox, tmp_path / "folder")
    monkeypatch.chdir(folder)
    if section[0].page == "README.md":  # whose readers have what `make demo` has made, and no other run
        shutil.rmtree(folder / "run")
    lines = [words for block in section if block.language == "shell" for words in commands(block)]
    for words in lines:  # what a section makes is not there before
        if "--output" in words:
            shutil.rmtree(words[words.index("--output") + 1], ignore_errors=True)
    for block in section:
        if block.language == "python":
            run_python(block.text)
        elif block.text.startswith("["):
            assert stage_ends(parse_stages(json.loads(block.text)), steps=1000) == [300, 700, 1000]
        elif block.language == "json":
            Path("network.json").write_text(block.text, "utf-8")
            expected = albert_tf.PRESETS["albert_base_v2"].replace(**json.loads(block.text))
            assert AlbertConfig.from_json_file("network.json") == expected
        else:
            for words in commands(block):
                if reason_against(words) is None:
                    run_command(words)


def run_command(words):
    """Runs a command with SMALL, and looks whether it made what it was told to."""
    words = completed(words)
    if words[0] == "albert-tf":
        begins = (small for start, small in SMALL.items() if shlex.join(words[1:]).startswith(start))
        assert cli.run([*words[1:], *shlex.split(next(begins, ""))]) == 0, shlex.join(words)
    else:
        assert words[:3] == ["python", "-m", "hub_export"], f"{shlex.join(words)}: see the top of this file"
        exporting.main(words[3:])
    if "--output" in words:
        assert Path(words[words.index("--output") + 1]).exists(), shlex.join(words)


def run_python(text):
    """Runs a block in a process of its own, and what is true afterwards."""
    if "import pandas" in text:
        pytest.importorskip("pandas")
    checks = [check for part, check in AFTERWARDS.items() if part in text]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        [sys.executable, "-c", text + "".join(checks)], check=True, env={**os.environ, "PYTHONPATH": path}
    )


def completed(words):
    """A command with the flags that it leaves out."""
    return [*words[:-1], *OMITTED] if words[-1] == "..." else words


def reason_against(words):
    """Why a command is not run; None for one that is."""
    return next((why for what, why in NOT_HERE.items() if re.match(what, " ".join(words))), None)


def test_every_block_is_run_or_somebody_says_why_not():
    of_sections = [block for _, _, found in SECTIONS for block in found]
    for block in of_sections:
        assert block.language in ("python", "json", "shell"), block
        if block.language == "python":
            assert sum(part in block.text for part in AFTERWARDS) == 1, f"what is true after {block.text}"
    typed = [words for block in of_sections if block.language == "shell" for words in commands(block)]
    run = {words[1] for words in typed if reason_against(words) is None and words[0] == "albert-tf"}
    assert run == set(cli.COMMANDS)
    for page, test in ELSEWHERE.items():
        assert (ROOT / test).exists() or page not in pages(), f"{test} runs the blocks of {page}"


def test_networks_of_the_families_in_the_table():
    text = (ROOT / "docs/training.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `({.*})` \|$", text, re.MULTILINE)
    assert len(rows) == 3
    for recipe, values in rows:
        config = AlbertConfig.from_dict(json.loads(values))
        preset = albert_tf.PRESETS[recipe]
        assert recipe in PRETRAINING_RECIPES and (config.family, config.hidden_size) == (preset.family, 256)
        for name in ("type_vocab_size", "position_offset", "pooler", "hidden_act", "layer_norm_eps"):
            assert getattr(config, name) == getattr(preset, name), name
        config.check_length(PRETRAINING_RECIPES[recipe].examples.seq_length)


def test_every_link_leads_somewhere():
    sources = [
        *pages(),
        *(f"{name}.md" for name in ("CONTRIBUTING", "CHANGELOG", "notebooks/README")),
        *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("benchmarks/**/*.md"))),
    ]
    found = [(page, *link.partition("#")[::2]) for page in sources for link in links(page)]
    assert len(found) > 20
    for page, path, anchor in found:
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page} links to {path}, which is not there"
        assert not anchor or anchor in anchors(str(target.resolve().relative_to(ROOT))), f"{page}: #{anchor}"


def test_what_is_not_run_is_understood(monkeypatch):
    """Commands for other machines, and clients, which need a server."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "serving")
    clients = [f"examples/serving/{name}.py" for name in ("rest_client", "grpc_client")]
    parsers = {client: runpy.run_path(str(ROOT / client))["parse"] for client in clients}
    parser, understood = cli.command_line_parser(), set()
    for block in (block for page in pages() for block in blocks(page) if block.language == "shell"):
        for program, *words in commands(block):
            if program == "albert-tf":
                flags, others = parser.parse_known_args(completed(words))
                assert words[0] == "prepare" or not others
                understood.add(getattr(flags, "strategy", None))
            elif program == "python" and words[0] in clients:
                options = parsers[words[0]](words)
                assert options.text or options.inputs
                understood.add(words[0])
    assert understood >= {"tpu", "mirrored", "multi_worker", *clients}
