"""The run directory: its files, its checkpoints, and how one run's weights start another."""
