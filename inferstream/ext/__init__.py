"""The extension API, version 1: what a plug-in may import beside the public names of the package."""

from .extension import API, Extension, Position

__all__ = ["API", "Extension", "Position"]
