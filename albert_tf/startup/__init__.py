"""How a command starts and ends: its flags, a quiet start of TensorFlow, its log, signals, exit statuses."""

from albert_tf.startup.commands import Command, OneLineParser, quiet_start, run_command

__all__ = ["Command", "OneLineParser", "quiet_start", "run_command"]
