"""The base classes of typed stubs for apps."""

MODULE = f"{__name__}.base"
"""The module that stubs import their base classes and `remote` from."""
