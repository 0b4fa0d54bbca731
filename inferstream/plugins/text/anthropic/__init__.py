"""The Anthropic Messages API under `/v1`."""
