"""What a user can mend, told apart from what only the code's author can."""

from __future__ import annotations


class InputError(ValueError):
    """What was asked for is impossible; the message names the value and the remedy.

    Commands show it as one line. Any other ValueError is a bug and keeps its traceback.
    """
