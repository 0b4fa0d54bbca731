"""`server tail`: the calls of a running server."""
