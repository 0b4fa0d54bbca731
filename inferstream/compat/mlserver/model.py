"""What a model author subclasses."""

from inferstream.model import MLModel

__all__ = ["MLModel"]
