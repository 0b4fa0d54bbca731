"""Grammars that a client asks a text to keep to, by llguidance."""
