"""`python -m hub_export.check DIR`: whether exported modules are what they should be."""
