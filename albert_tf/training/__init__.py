"""The engine: updates, the one loop, evaluation, resuming; callers say what is trained, and on what."""
