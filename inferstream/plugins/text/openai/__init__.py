"""The OpenAI API (protocol §3.14) under `/v1` and `/openai/v1`."""
