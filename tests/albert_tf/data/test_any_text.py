"""Files of any bytes through the whole pipeline, against the definition of chunks, one at a time."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import albert_tf
from tests.albert_tf.data.test_pretraining import follows, unmasked
from tests.tiny import CORPUS

LENGTH = 48
BUDGET = LENGTH - 3


@pytest.fixture(scope="module")
def epoch(tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """From the bytes of a file to the examples of one epoch, as pairs of segments in the order of the text.

    The dataset is made once: it reads its file anew in each epoch.
    """
    path = tmp_path_factory.mktemp("any") / "text.txt"
    path.write_text(CORPUS)
    options = {"batch_size": 8, "seq_length": LENGTH, "short_seq_prob": 0, "shuffle": False, "repeat": False}
    dataset = albert_tf.pretraining_dataset(path, tiny_vocabulary, **options)

    def examples(content):
        path.write_bytes(content)
        found = []
        for batch in dataset.as_numpy_iterator():
            found += [(b, a) if label else (a, b) for a, b, label in unmasked(batch)]
        return found

    return examples


def chunks(content, tokenizer):
    """The tokens of each chunk of a text that can be divided: sentences up to BUDGET tokens."""
    starts_word = tokenizer.vocabulary.starts_word
    lines = [line.strip() for line in content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")]
    for blank, document in itertools.groupby(lines, key=lambda line: not line):
        sentences = [] if blank else [tokens for tokens in tokenizer(list(document)).to_list() if tokens]
        chunk, count = [], 0
        for number, sentence in enumerate(sentences, start=1):
            chunk, count = chunk + sentence, count + 1
            if len(chunk) >= BUDGET or number == len(sentences):
                if count > 1 or starts_word[chunk[1:]].any():
                    yield chunk
                chunk, count = [], 0


def check(content, epoch, tokenizer):
    """Each chunk is one example, whole where it fits."""
    found, expected = epoch(content), list(chunks(content, tokenizer))
    assert len(found) == len(expected)
    for (left, right), chunk in zip(found, expected, strict=True):
        assert left and right
        if len(chunk) <= BUDGET:
            assert left + right == chunk
        else:
            assert len(left) + len(right) == BUDGET
            assert follows(right, left, chunk)


lines = st.one_of(
    st.sampled_from(
        [
            b"",
            b"hat",
            b"a",
            b"The lighthouse stood.",
            "👍🏽 你好，世界。".encode(),
            b"nul\0byte \0",
            b"\xff\xfe bad \xc3 utf8 \xed\xa0\x80",
            "\u00ad\u200b".encode(),  # no token is left of it
            b"sentences longer than the sequence " * 12,
            b"lonelongword" * 30,
        ]
    ),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    # No text in UTF-8 has the byte that `text_lines` takes for itself.
    st.binary(max_size=12).map(lambda line: line.replace(b"\xfd", b"\xfc")),
)
texts = st.tuples(st.lists(lines, max_size=40), st.sampled_from([b"\n", b"\r\n", b"\n\n"]), st.booleans())


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(texts)
@example(([], b"\n", False))
@example(([b"hat"], b"\n", False))
@example(([b"a hat"], b"\r\n", True))
@example(([b"0\r0 hats", b"a\r\rhat"], b"\n", True))
def test_texts_of_all_kinds(epoch, tiny_tokenizer, text):
    parts, newline, last = text
    check(newline.join(parts) + newline * last, epoch, tiny_tokenizer)
