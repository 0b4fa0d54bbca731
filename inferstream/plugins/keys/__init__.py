"""Keys: who may call a server, how often, and what is written of it."""

from inferstream.ext import Extension

extension = Extension(
    "keys",
    settings="inferstream.plugins.keys.settings:KeysSettings",
    variables=["KEYS"],
)
