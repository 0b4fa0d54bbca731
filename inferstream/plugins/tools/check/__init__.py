"""`server check`: contract tests of models, generated from their signatures."""
