"""NumPy arrays in tensors."""

from inferstream.codecs.numpy import NumpyCodec, NumpyRequestCodec, to_datatype, to_dtype

__all__ = [
    "NumpyCodec",
    "NumpyRequestCodec",
    "to_datatype",
    "to_dtype",
]
