"""Typed stubs of apps: their source, and the classes that they build on."""
