"""`server top`: a live table of the models of a running server."""
