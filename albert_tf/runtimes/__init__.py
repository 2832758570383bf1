"""Networks in other runtimes than TensorFlow."""
