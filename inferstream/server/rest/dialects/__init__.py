"""HTTP dialects, one module each. `routing.py` lists the dialects of the core."""
