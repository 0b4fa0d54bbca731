"""MLServer and BlazeRPC modules under their original names, implemented by inferstream.

The server makes them importable as `mlserver` and `blazerpc` when it loads models. In a client program, call
`inferstream.compat.install()`.
"""

from .finder import install

__all__ = ["install"]
