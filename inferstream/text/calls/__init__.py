"""Reads tool calls and reasoning out of the text that a model writes, piece by piece."""
