"""MLServer's modules, each under its old name, made of ours.

They are no package of their own: the server makes them importable as `mlserver` when it loads models, and
a client program does so with `inferstream.compat.install()`.
"""

from .finder import install

__all__ = ["install"]
