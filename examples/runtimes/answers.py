"""Formats the outputs of a converted model as lines of text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tokens import SEPARATOR, ConvertedTokenizer

Row = Mapping[str, np.ndarray]


def format_answer(
    tokenizer: ConvertedTokenizer, inputs: Row, outputs: Row, text: str, pair: str = ""
) -> list[str]:
    """The lines of one text.

    An encoder has its embedding, a classifier the probabilities of the labels, a tagger the label of each
    word, and a span labeler the answer in the second segment.

    Args:
      tokenizer: tokenizer of the network's folder.
      inputs: inputs of the network for the text, without the batch dimension.
      outputs: outputs of the network for these inputs, without the batch dimension.
      text: the first segment.
      pair: the second segment.
    """
    task = tokenizer.task
    if not task:
        embedding = outputs["pooled_output"]
        return [f"{len(embedding)} numbers: {np.array2string(embedding[:4], precision=4)} …"]
    if task["model"] == "span_labeler":
        if outputs.get("no_answer_logits", -1) > 0:  # "no answer" is likelier than not
            return [""]
        context = (inputs["input_type_ids"] == 1) & (inputs["input_word_ids"] != SEPARATOR)
        first, last = most_likely_span(context, outputs, task.get("max_answer_length", 30))
        start = context.argmax()  # first token of the second segment
        spans = tokenizer.token_spans(pair)[first - start : last + 1 - start] if context[last] else []
        return [pair[spans[0][0] : spans[-1][1]].strip() if spans else ""]
    logits = outputs["logits"]  # classifier: [K]; tagger: [S, K]
    if task["model"] == "classifier" and len(logits) == 1 and not task.get("multi_label"):  # regression
        return [f"{logits[0]:.4f}"]
    labels = task.get("labels") or range(logits.shape[-1])
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = odds / odds.sum(-1, keepdims=True)
    if task["model"] == "classifier":
        if task.get("multi_label"):  # independent labels
            probabilities = 1 / (1 + np.exp(-logits))
        return [f"{labels[index]} {probabilities[index]:.4f}" for index in np.argsort(-probabilities)]
    lines, position, end = [], 1, inputs["input_mask"].sum() - 1  # between [CLS] and [SEP]
    for word in tokenizer.split_words(text):
        if position < end:  # the first token of a word has its label
            row = probabilities[position]
            lines.append(f"{word}: {labels[row.argmax()]} {row.max():.4f}")
        position += len(tokenizer.encode_word(word))
    return lines


def most_likely_span(context: np.ndarray, outputs: Row, max_length: int) -> tuple[int, int]:
    """First and last token of the most likely answer; (0, -1) where there is none.

    Args:
      context: bool [S], True for tokens that an answer may have.
      outputs: outputs of a span labeler.
      max_length: largest number of tokens of an answer.
    """
    if "no_answer_logits" in outputs:  # the most likely starts [I], and ends of each start [I, J]
        starts, ends = outputs["start_top_index"][:, np.newaxis], outputs["end_top_index"]
        scores = outputs["start_top_log_probs"][:, np.newaxis] + outputs["end_top_log_probs"]
    else:
        starts, ends = np.ogrid[: len(context), : len(context)]
        scores = outputs["start_logits"][:, np.newaxis] + outputs["end_logits"]  # [S, S]
    possible = context[starts] & context[ends] & (starts <= ends) & (ends - starts < max_length)
    if not possible.any():
        return 0, -1
    best = np.where(possible, scores, -np.inf).argmax()
    first, last = (np.broadcast_to(tokens, scores.shape).flat[best] for tokens in (starts, ends))
    return first, last
