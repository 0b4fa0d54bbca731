"""The web page of a server, and the JavaScript client."""

from inferstream.ext import Extension

extension = Extension(
    "page",
    settings="inferstream.plugins.page.settings:PageSettings",
    dialects={
        "documentation": "inferstream.plugins.page.dialect:Documentation",
        "javascript": "inferstream.plugins.page.javascript:JavaScriptClient",
    },
    edges={"live": "inferstream.plugins.page.live:answer_front_ends"},
    messages={"live": "inferstream.plugins.page.live"},
)
