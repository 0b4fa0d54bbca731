"""ORCA messages, in a separate descriptor pool."""
