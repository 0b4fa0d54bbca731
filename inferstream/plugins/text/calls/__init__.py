"""Streaming parsers that extract tool calls and reasoning from a model's output."""
