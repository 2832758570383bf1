"""Networks for other runtimes, from token ids: `python -m hub_export --to`."""
