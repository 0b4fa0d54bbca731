"""The page for people at the root and at `docs`, its files, and the OpenAPI documents of server and models."""

from collections.abc import Sequence

from inferstream.ext.calls import Action, Caller
from inferstream.ext.http import (
    JSON_HEADER,
    Answer,
    AsgiScope,
    HttpDialect,
    ReadClaim,
    ReadRoute,
    json_answer,
)
from inferstream.plugins.page.settings import PageSettings

from .files import page_document, page_files
from .openapi import describe

ROOT = "/"
ALIVE = b'{"status":"alive"}'
"""What probes get at the root, as without the page."""

PAGE = "/page/"
"""The path of the files of the page."""


class Documentation(HttpDialect):
    """What the server says of itself to people and to tools."""

    name = "documentation"

    def reads(self) -> Sequence[ReadClaim]:
        documents = [
            ReadClaim("/openapi.json", Action.DOCUMENTATION, self._document),
            ReadClaim("/v2/docs/dataplane.json", Action.DOCUMENTATION, self._document),
            # It says no more than the metadata, and the page needs it.
            ReadClaim(
                "/v2/models/{name}/docs/dataplane.json", Action.MODEL_METADATA, self._document_of_model
            ),
        ]
        if not self._settings.section(PageSettings).page:
            return documents
        page_document("./")  # read at load, as the files are
        return [
            *documents,
            ReadClaim(ROOT, Action.PAGE, self._root),
            ReadClaim("/docs", Action.PAGE, self._page),
            ReadClaim("/v2/docs", Action.PAGE, self._page),
            ReadClaim("/v2/models/{name}/docs", Action.PAGE, self._page_of_model),
            *(ReadClaim(PAGE + name, Action.PAGE, self._file) for name in page_files()),
        ]

    async def _root(self, route: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """The page for a browser; for all other clients the answer that the server is alive."""
        if b"text/html" in dict(scope["headers"]).get(b"accept", b""):
            return await self._page(route, caller, scope)
        return 200, [JSON_HEADER], ALIVE

    async def _page(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        prefix = self._prefix(scope, "")
        # Relative where the client's path is this one, so that a proxy may serve the page below any path.
        path = scope.get("raw_path") or scope["path"].encode()  # a name may hold slashes that are escaped
        up = "../" * (path.count(b"/") - 1)
        access = self._dataplane.access
        closed = not access.requires_credentials and not access.repository_open
        page = page_document(f"{prefix}/" if prefix else up or "./", closed)
        return page.response(scope["headers"], self._encoding(scope))

    async def _page_of_model(self, route: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        if not self._dataplane.access.restricts:  # an unknown model has no page
            await self._dataplane.model_metadata(route.model, route.version)
        return await self._page(route, caller, scope)

    async def _file(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        file = page_files()[scope["path"].removeprefix(PAGE)]
        return file.response(scope["headers"], self._encoding(scope))

    async def _document(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        return json_answer(describe(self._settings, self._prefix(scope), dialects=self.siblings))

    async def _document_of_model(self, route: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        name, version = route.model, route.version
        metadata = await self._dataplane.model_metadata(name, version)
        document = describe(
            self._settings,
            self._prefix(scope),
            metadata,
            version,
            self._dataplane.described(name, version),
        )
        return json_answer(document)
