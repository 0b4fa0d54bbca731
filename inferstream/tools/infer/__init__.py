"""`server infer`: every request of a file to a server."""
