"""The modules of MLServer and of BlazeRPC under their own names, made of ours.

The server makes them importable as `mlserver` and `blazerpc` when it loads models. A client program calls
`inferstream.compat.install()`.
"""

from .finder import install

__all__ = ["install"]
