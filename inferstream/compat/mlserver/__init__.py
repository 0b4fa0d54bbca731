"""The code behind MLServer's names where ours alone does not do what MLServer promises; `compat/names.py` lists it."""
