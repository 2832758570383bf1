import tensorflow as tf

from albert_tf.tasks.multiple_choice import choice_lengths, question_with_option


def test_options_fill_blanks_or_stand_behind():
    cases = [
        ("The sky is _ .", "blue", "The sky is blue ."),
        ("_", "blue", "blue"),
        ("_ and _ ?", "a", "a and a ?"),
        ("The sky is ____.", "blue", "The sky is blue."),
        ("What is it?", "A kite", "What is it? A kite"),
        ("", "A kite", " A kite"),
        ("É _ ü", "\\1 ñ", "É \\1 ñ ü"),
    ]
    questions, options, expected = zip(*cases, strict=True)
    found = question_with_option(tf.constant(questions), tf.constant(options))
    assert [text.decode() for text in found.numpy()] == list(expected)
    assert question_with_option(tf.constant([], tf.string), tf.constant([], tf.string)).shape == [0]


def test_a_context_gives_way_to_the_question():
    context, question = tf.constant([[4], [40]]), tf.constant([[2, 30], [3, 200]])
    told, kept = choice_lengths(context, question, 40)
    assert (told.numpy().tolist(), kept.numpy().tolist()) == ([[4, 4], [37, 0]], [[2, 30], [3, 40]])
    told, kept = choice_lengths(context, question, 140)
    assert (told.numpy().tolist(), kept.numpy().tolist()) == ([[4, 4], [40, 12]], [[2, 30], [3, 128]])
