"""The dialects of ModelStreamInfer, one file for each; `stream.py` lists them."""
