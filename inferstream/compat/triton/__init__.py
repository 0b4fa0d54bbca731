"""Models of Triton's Python backend: a `model.py` with a class `TritonPythonModel`, as it is."""
