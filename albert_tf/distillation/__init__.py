"""Distillation: a student learns from the outputs of a trained teacher, beside the text or the labels."""
