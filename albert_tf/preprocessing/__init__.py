"""Offline, on Apache Beam: raw text of any size to tokenised documents in shards."""
