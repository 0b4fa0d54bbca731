"""Keys of clients: what each may do, how much, and who did what."""

from inferstream.ext import Extension

extension = Extension(
    "keys",
    settings="inferstream.plugins.keys.settings:KeysSettings",
    variables=["KEYS"],
    commands={"keys": "inferstream.cli.keys:app"},
)
