"""Data frames in requests."""

from inferstream.codecs.pandas import PandasCodec

__all__ = [
    "PandasCodec",
]
