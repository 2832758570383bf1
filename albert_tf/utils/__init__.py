"""Files and JSON, records of settings, checks of values, errors: what all folders share."""
