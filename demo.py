"""The whole way on real text in a few minutes: vocabulary, pre-training, TF Hub modules, answers.

`make demo` runs it on English prose that every Python has, its language reference and the docstrings of its
standard library; `make demo TEXT=path` on a text file of yours: a sentence or paragraph a line, a blank line
between documents. Every `$` line it prints can be typed as it stands, after `source .venv/bin/activate`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import io
import json
import re
import shlex
import shutil
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from albert_tf.signals import quiet_start

with quiet_start():
    import tensorflow as tf
    import tensorflow_hub as hub

    import hub_export.__main__
    from albert_tf import cli
    from albert_tf.errors import InputError
    from albert_tf.tasks.tables import read_data_bytes
    from albert_tf.text.files import check_text_files, decode_text
    from albert_tf.text.sentencepiece import SentencePieceVocabulary

OUTPUT = Path("demo-output")
VOCAB_SIZE = 2000
SEQ_LENGTH = 128

# For so few the recipe's network is one layer, 128 wide.
STEPS = 2200

# What the masked language model must know beyond how frequent each piece is, in nats. The held-out text is
# short: going over it several times, with other masks each time, makes the figure exact.
LEAST_GAIN = 0.3
EVALUATION_PASSES = 4

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> None:
    """Runs the demo; exit status 1 where the model learned too little."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text", type=Path, help="text file to learn from; without it, Python's reference")
    text = parser.parse_args().text
    started = time.monotonic()
    corpus = documents(text)
    made = {
        "vocabulary": OUTPUT / "vocabulary.model",
        "run: config and checkpoints": OUTPUT / "run",
        "modules for hub.KerasLayer": OUTPUT / "hub",
        "loss curve": OUTPUT / "curve.png",
    }
    vocabulary, run, modules, curve = made.values()
    begin_anew([OUTPUT / "text", vocabulary, vocabulary.with_suffix(".tokenizer.json"), run, modules, curve])
    train, held_out = write_corpus(corpus, OUTPUT / "text")
    figures = learn(train, held_out, vocabulary, run)
    command("analyse", "curve", "--run", run, "--output", curve)
    export = ["--run", str(run), "--output", str(modules), "--seq_length", str(SEQ_LENGTH)]
    print("$ " + shlex.join(["python", "-m", "hub_export", *export]), flush=True)
    hub_export.__main__.main(export)
    use_modules(modules, vocabulary)
    show_results(figures, made, time.monotonic() - started)
    gain = figures["eval_mlm_unigram_entropy"] - figures["eval_mlm_loss"]
    if not gain >= LEAST_GAIN:
        sys.exit(f"the model learned too little: {gain:.2f} nats below the unigram entropy, not {LEAST_GAIN}")


def begin_anew(made: list[Path]) -> None:
    """Removes what a former demo has made, and nothing else that lies beside it."""
    there = [path for path in made if path.exists()]
    if there:
        print(f"begins anew: removes {', '.join(map(str, there))}")
    for path in there:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def documents(text: Path | None) -> list[list[str]]:
    """The documents of a text file, or of Python's documentation: lists of paragraphs, none of them twice."""
    if text is not None:
        if not text.is_file():
            sys.exit(f"{text} is not a file: TEXT names a text file to learn from")
        try:
            check_text_files([str(text)])
            content = decode_text(read_data_bytes(str(text)), str(text))
        except InputError as error:
            sys.exit(str(error))
        pages = [block.splitlines() for block in re.split(r"\n\s*\n", content)]
    else:
        from pydoc_data.topics import topics

        pages = [prose(page) for page in (*topics.values(), *docstrings())]
    # Topics quote each other. The longest page keeps what several have, or else what is held out would be
    # found among what is learned.
    seen: set[str] = set()
    pages.sort(key=lambda page: (-sum(map(len, page)), page))
    pages = [
        [line for line in page if line.strip() and not (line in seen or seen.add(line))] for page in pages
    ]
    return [page for page in pages if page]


def docstrings() -> Iterator[str]:
    """All docstrings of each module of the standard library, joined by blank lines."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if {"site-packages", "test", "tests", "idlelib", "lib2to3"}.isdisjoint(path.parts):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # of old escapes in old modules
                tree = ast.parse(path.read_bytes())
            nodes = (node for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
            yield "\n\n".join(filter(None, map(ast.get_docstring, nodes)))


def prose(page: str) -> list[str]:
    """The paragraphs of a page, a line each, that are English and neither code nor tables."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", page))
    return [line for line in paragraphs if line.count(" ") >= 7 and _share_of_letters(line) > 0.85]


def _share_of_letters(line: str) -> float:
    return sum(character.isalpha() or character == " " for character in line) / len(line)


def write_corpus(corpus: list[list[str]], folder: Path) -> tuple[Path, Path]:
    """Writes the documents to train on and, a tenth of them, those to be held out."""
    folder.mkdir(parents=True, exist_ok=True)
    if len(corpus) < 2:
        sys.exit("the text is a single document: it takes two, divided by blank lines, to hold one out")
    corpus = sorted(corpus, key=_hash)
    cut = max(1, len(corpus) // 10)
    paths = []
    for name, part in (("train.txt", corpus[cut:]), ("held_out.txt", corpus[:cut])):
        paths.append(folder / name)
        paths[-1].write_text("\n\n".join("\n".join(document) for document in part) + "\n", encoding="utf-8")
    print(f"{len(corpus)} documents, {cut} of them held out")
    return paths[0], paths[1]


def _hash(document: list[str]) -> str:
    return hashlib.sha256("\n".join(document).encode()).hexdigest()


def learn(train: Path, held_out: Path, vocabulary: Path, run: Path) -> dict[str, float]:
    """Trains vocabulary and model; returns the figures of the evaluation on the held-out documents."""
    command("vocab", "--input", train, "--vocab_size", VOCAB_SIZE, "--output", vocabulary)
    files = ["--train", train, "--eval", held_out, "--vocabulary", vocabulary]
    recipe = ["--recipe", "one_machine", "--steps", STEPS]
    intervals = ["--log_every", 200, "--eval_every", 1000, "--checkpoint_every", 1000]
    command("pretrain", *files, *recipe, *intervals, "--output", run)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        share = ["--masked_lm_prob", 0.15]  # the paper's; the recipe masks twice as much
        command("evaluate", "--run", run, "--input", held_out, "--passes", EVALUATION_PASSES, *share)
    print(printed.getvalue(), end="")
    return json.loads(printed.getvalue().partition("\n")[2])


def command(*arguments: object) -> None:
    """Shows a command line of `albert-tf` and runs it; the demo ends where it fails."""
    words = [str(argument) for argument in arguments]
    print("$ " + shlex.join(["albert-tf", *words]), flush=True)
    status = cli.run(words)
    if status:
        sys.exit(status)


def use_modules(folder: Path, vocabulary: Path) -> None:
    """Text in, embeddings out, and a [MASK] filled, as somebody would do it who has only the modules."""
    preprocessor_path, encoder_path = str(folder / "preprocessor"), str(folder / "encoder")
    sentences = ["A function is an object.", "So is a class."]
    print(f"""
>>> preprocessor = hub.KerasLayer({preprocessor_path!r})
>>> encoder = hub.KerasLayer({encoder_path!r}, trainable=True)
>>> outputs = encoder(preprocessor(tf.constant({sentences!r})))""")
    preprocessor = hub.KerasLayer(preprocessor_path)
    encoder = hub.KerasLayer(encoder_path, trainable=True)
    outputs = encoder(preprocessor(tf.constant(sentences)))
    for name in ("pooled_output", "sequence_output"):
        print(f">>> outputs[{name!r}].shape\n{outputs[name].shape}")
    before, after = "The object is", "by the function."
    print(f">>> fill_mask({before!r}, {after!r})  # {before} [MASK] {after}")
    for piece, probability in fill_mask(folder, vocabulary, before, after):
        print(f"{probability:6.1%}  {piece}")


def fill_mask(folder: Path, vocabulary: Path, before: str, after: str) -> list[tuple[str, float]]:
    """The likeliest pieces for a [MASK] between two texts, and their probabilities."""
    preprocessor, encoder = (hub.load(str(folder / name)) for name in ("preprocessor", "encoder"))
    mask = preprocessor.tokenize.get_special_tokens_dict()["mask_id"]
    left, right = (preprocessor.tokenize(tf.constant([text])) for text in (before, after))
    tokens = tf.concat([left, tf.RaggedTensor.from_tensor([[mask]]), right], axis=1)
    inputs = preprocessor.bert_pack_inputs([tokens], seq_length=tf.constant(32))
    position = 1 + left.row_lengths()[0]  # behind [CLS]
    masked = {**inputs, "masked_lm_positions": tf.reshape(tf.cast(position, tf.int32), [1, 1])}
    best = tf.math.top_k(tf.nn.softmax(encoder.mlm(masked)["mlm_logits"][0, 0]), k=5)
    pieces = SentencePieceVocabulary.from_file(vocabulary).pieces
    return [(pieces[i], p) for i, p in zip(best.indices.numpy(), best.values.numpy(), strict=True)]


def show_results(figures: dict[str, float], made: dict[str, Path], seconds: float) -> None:
    """The table at the end: how well it went, and where everything is."""
    print("\nOn the held-out documents:")
    for name, title in {
        "eval_mlm_loss": "masked tokens, nats",
        "eval_mlm_unigram_entropy": "  of their own frequencies",
        "eval_mlm_accuracy": "masked tokens, accuracy",
        "eval_sop_accuracy": "sentence order, accuracy",
    }.items():
        print(f"  {title:28} {figures[name]:6.3f}")
    print("Made:")
    for title, path in made.items():
        print(f"  {title:28} {path}")
    print(f"In {seconds:.0f} seconds.")


if __name__ == "__main__":
    main()
