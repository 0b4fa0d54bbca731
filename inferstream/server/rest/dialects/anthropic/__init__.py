"""Anthropic's dialect: Messages, under `/v1`."""
