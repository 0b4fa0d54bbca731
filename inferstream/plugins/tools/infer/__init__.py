"""`server infer`: batch inference from a file."""
