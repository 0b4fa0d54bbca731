"""Structured output with llguidance grammars."""
