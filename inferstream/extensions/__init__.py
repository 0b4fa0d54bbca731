"""Discovers and loads the extensions of installed packages. See docs/extending.md for their contracts."""
