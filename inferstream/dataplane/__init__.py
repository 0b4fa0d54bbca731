"""The path of an inference: a call passes the stages of its model and opens a reply."""
