"""Clients of OpenAI's API that the other tests do not need: run by `make test-llm`."""
