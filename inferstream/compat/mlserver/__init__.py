"""Code for MLServer's names, where its contract differs from ours. `compat/names.py` lists the names."""
