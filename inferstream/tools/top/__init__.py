"""`server top`: the models of a running server and their numbers."""
