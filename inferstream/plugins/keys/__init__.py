"""API keys: authentication, scopes, rate limits, usage totals and the audit log."""

from inferstream.ext import Extension

extension = Extension(
    "keys",
    settings="inferstream.plugins.keys.settings:KeysSettings",
    variables=["KEYS"],
    authority="inferstream.plugins.keys.authority:MeteringAuthority",
    dialects={"keys": "inferstream.plugins.keys.listing:KeyList"},
    call_values={"share": "inferstream.plugins.keys.shares:SHARE"},
    turns={"shares": "inferstream.plugins.keys.shares:Shares"},
    commands={"keys": "inferstream.plugins.keys.command:app"},
    panels={"keys": "Keys"},
)
