"""The classes that typed stubs of apps build on."""

MODULE = f"{__name__}.base"
"""The module from which stubs import their base classes and `remote`."""
