"""Readers of benchmarks and of tables: a format each."""
