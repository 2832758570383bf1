"""Outputs of a converted model as lines to read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tokens import SEPARATOR, Tokens

Row = Mapping[str, np.ndarray]


def answer(tokens: Tokens, inputs: Row, outputs: Row, text: str, pair: str = "") -> list[str]:
    """Lines of one text: of an encoder its embedding, and else what the head says.

    A classifier's are probabilities of labels, a tagger's the label of each word, a span labeler's the answer
    in the second segment.

    Args:
      tokens: of the network's folder.
      inputs: of the text, without the dimension of the batch.
      outputs: for these inputs, likewise.
      text: the first segment.
      pair: the second segment.
    """
    task = tokens.task
    if not task:
        embedding = outputs["pooled_output"]
        return [f"{len(embedding)} numbers: {np.array2string(embedding[:4], precision=4)} …"]
    if task["model"] == "span_labeler":
        if outputs.get("no_answer_logits", -1) > 0:  # "no answer" is likelier than not
            return [""]
        context = (inputs["input_type_ids"] == 1) & (inputs["input_word_ids"] != SEPARATOR)
        first, last = likeliest_span(context, outputs, task.get("max_answer_length", 30))
        before = context.argmax()  # tokens of the first segment
        found = tokens.spans(pair)[first - before : last + 1 - before] if context[last] else []
        return [pair[found[0][0] : found[-1][1]].strip() if found else ""]
    logits = outputs["logits"]  # [K] of a classifier, [S, K] of a tagger
    if task["model"] == "classifier" and len(logits) == 1 and not task.get("multi_label"):  # a regression
        return [f"{logits[0]:.4f}"]
    labels = task.get("labels") or range(logits.shape[-1])
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = odds / odds.sum(-1, keepdims=True)
    if task["model"] == "classifier":
        if task.get("multi_label"):  # each label by itself
            probabilities = 1 / (1 + np.exp(-logits))
        return [f"{labels[place]} {probabilities[place]:.4f}" for place in np.argsort(-probabilities)]
    lines, place, end = [], 1, inputs["input_mask"].sum() - 1  # of [CLS] and [SEP]
    for word in tokens.words(text):
        if place < end:  # the first token of a word has its label
            row = probabilities[place]
            lines.append(f"{word}: {labels[row.argmax()]} {row.max():.4f}")
        place += len(tokens.word_ids(word))
    return lines


def likeliest_span(context: np.ndarray, outputs: Row, longest: int) -> tuple[int, int]:
    """First and last token of the likeliest answer in the context, bool [S]; (0, -1) where there is none.

    An answer has at most `longest` tokens.
    """
    if "no_answer_logits" in outputs:  # the likeliest starts [I] come with the likeliest ends of each [I, J]
        starts, ends = outputs["start_top_index"][:, np.newaxis], outputs["end_top_index"]
        scores = outputs["start_top_log_probs"][:, np.newaxis] + outputs["end_top_log_probs"]
    else:
        starts, ends = np.ogrid[: len(context), : len(context)]
        scores = outputs["start_logits"][:, np.newaxis] + outputs["end_logits"]  # [S, S]
    possible = context[starts] & context[ends] & (starts <= ends) & (ends - starts < longest)
    if not possible.any():
        return 0, -1
    place = np.where(possible, scores, -np.inf).argmax()
    first, last = (np.broadcast_to(places, scores.shape).flat[place] for places in (starts, ends))
    return first, last
