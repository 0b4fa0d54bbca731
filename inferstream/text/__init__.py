"""Text in, tokens out: what makes a model of tensors a text model, and its responses a text."""
