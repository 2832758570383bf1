import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.text.lines import split_sentences


def test_lines_end_at_lf_cr_and_both():
    assert split_sentences("one\rtwo\r\nthree\nfour \r five") == ["one", "two", "three", "four", "five"]


@pytest.mark.parametrize(
    "sentences",
    [
        ["One.", "Two!", "Three?", "Four…", "Five"],
        ["Mr. Alder and Dr. B. Reed met Prof. Lime.", "They left."],
        ['"Stop!" she cried.', "He did."],
        ['He said "Stop!"', "She ran."],
        ["(He left.)", "Nobody saw it."],
        ["It cost $3.50, i.e. 12 a dozen, at 5 p.m. on Monday.", "Cheap."],
        ["See Fig. 3 and No. 5.", "12 men came."],
        ["The U.S. Army came.", "It went."],
        ["They sold tea, coffee, etc.", "The shop closed."],
        ["Did I?", "So did I.", "Yes."],
        ["他走了。", "真的！", "“为什么？”", "他问。"],
        ["Élan vital.", "Ärger.", "¿Qué?", "Ω."],
        ["no capital follows. here it goes on"],
        ["a line", "and another"],
    ],
)
def test_sentences(sentences):
    assert split_sentences(("\n" if sentences[0] == "a line" else " ").join(sentences)) == sentences


@given(st.text(alphabet=st.sampled_from(list("Aa1.!?。 \n\"')(”…é😀\0")), max_size=60))
def test_nothing_but_whitespace_is_lost(text):
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


def test_a_long_text_takes_linear_time():
    assert len(split_sentences("Word after word. " * 200_000)) == 200_000
    assert len(split_sentences("x" * 10_000_000)) == 1
    assert len(split_sentences("." * 1_000_000)) == 1
    assert len(split_sentences("a" + " " * 1_000_000 + "b \n c")) == 2
