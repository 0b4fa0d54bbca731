"""Keys of clients: what each may do, how much, and who did what."""

from inferstream.ext import Extension

extension = Extension(
    "keys",
    settings="inferstream.plugins.keys.settings:KeysSettings",
    variables=["KEYS"],
    authority="inferstream.plugins.keys.authority:MeteringAuthority",
    call_values={"share": "inferstream.dataplane.shares:SHARE"},
    turns={"shares": "inferstream.dataplane.shares:Shares"},
    commands={"keys": "inferstream.cli.keys:app"},
)
