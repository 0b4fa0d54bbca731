"""The dialects of ModelStreamInfer, one file for each."""
