"""Conformance to the protocols that the server speaks, checked from their own sentences."""
