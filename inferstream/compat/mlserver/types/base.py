"""The base of the protocol's types."""

from inferstream.types.base import BaseModel

__all__ = ["BaseModel"]
