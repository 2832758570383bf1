"""The trainer: steps, the loop, evaluation, resuming and several devices, for any model and data."""
