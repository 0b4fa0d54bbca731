"""OpenAI's dialect, as OpenAI's own client meets it."""
