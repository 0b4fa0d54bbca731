"""The page of a server, and the JavaScript client."""

from inferstream.ext import Extension

extension = Extension(
    "page",
    settings="inferstream.plugins.page.settings:PageSettings",
    dialects={
        "documentation": "inferstream.server.rest.dialects.documentation.dialect:Documentation",
        "javascript": "inferstream.server.rest.dialects.javascript:JavaScriptClient",
    },
)
