"""Times in tensors."""

from inferstream.codecs.datetime import DatetimeCodec

__all__ = [
    "DatetimeCodec",
]
