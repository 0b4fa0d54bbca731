"""OpenAI's dialect (protocol §3.14), under `/v1` and `/openai/v1`."""
