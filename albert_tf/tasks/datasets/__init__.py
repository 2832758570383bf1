"""Benchmarks and tables, a format each: records are read, predictions are written."""
