"""Text in, answers out, from Python: a Keras model that trains on texts, and pipelines that answer."""
