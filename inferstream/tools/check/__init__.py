"""`server check`: contract tests of models, made from their signatures."""
