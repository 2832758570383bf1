"""Start and end of commands: flags, log, signals, exit statuses."""

from albert_tf.startup.commands import Command, OneLineParser, quiet_start, run_command, run_program

__all__ = ["Command", "OneLineParser", "quiet_start", "run_command", "run_program"]
