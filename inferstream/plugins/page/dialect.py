"""HTTP routes of the web page and of OpenAPI documents."""

from collections.abc import Sequence

import msgspec

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

from .files import page_document, page_files
from .live import LiveMetrics
from .openapi import describe
from .settings import PageSettings

ROOT = "/"
ALIVE = b'{"status":"alive"}'
"""The response to probes at the root. It is the same if the page is disabled."""

PAGE = "/page/"
"""The path of the page's files."""


class Documentation(HttpDialect):
    """The web page for browsers, and OpenAPI documents for tools."""

    name = "documentation"

    def reads(self) -> Sequence[ReadClaim]:
        documents = [
            ReadClaim("/openapi.json", Action.DOCUMENTATION, self._document),
            ReadClaim("/v2/docs/dataplane.json", Action.DOCUMENTATION, self._document),
            # Same permission as the metadata: it contains the same information, and the page needs it.
            ReadClaim(
                "/v2/models/{name}/docs/dataplane.json", Action.MODEL_METADATA, self._document_of_model
            ),
        ]
        if not self._settings.section(PageSettings).page:
            return documents
        page_document("./")  # Loads the document at startup, like the other files.
        documents.append(ReadClaim(PAGE + "limits", Action.SERVER_METADATA, self._limits))
        if self._settings.metrics_endpoint:
            documents.append(ReadClaim(PAGE + "live", Action.METRICS, self._live))
        return [
            *documents,
            ReadClaim(ROOT, Action.PAGE, self._root),
            ReadClaim("/docs", Action.PAGE, self._page),
            ReadClaim("/v2/docs", Action.PAGE, self._page),
            ReadClaim("/v2/models/{name}/docs", Action.PAGE, self._page_of_model),
            *(ReadClaim(PAGE + name, Action.PAGE, self._file) for name in page_files()),
        ]

    async def _root(self, route: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """Return the page to browsers, and the liveness status to all other clients."""
        if b"text/html" in dict(scope["headers"]).get(b"accept", b""):
            return await self._page(route, caller, scope)
        return 200, [JSON_HEADER], ALIVE

    async def _page(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        prefix = self._prefix(scope, "")
        # Relative to the client's path, so that a proxy can serve the page below any prefix.
        path = scope.get("raw_path") or scope["path"].encode()  # A name can contain escaped slashes.
        up = "../" * (path.count(b"/") - 1)
        access = self._dataplane.access
        closed = not access.requires_credentials and not access.repository_open
        page = page_document(f"{prefix}/" if prefix else up or "./", closed)
        return page.response(scope["headers"], self._encoding(scope))

    async def _page_of_model(self, route: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        if not self._dataplane.access.restricts:  # An unknown model has no page.
            await self._dataplane.model_metadata(route.model, route.version)
        return await self._page(route, caller, scope)

    async def _file(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        file = page_files()[scope["path"].removeprefix(PAGE)]
        return file.response(scope["headers"], self._encoding(scope))

    async def _live(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """Return the metrics that the page shows, of each front end, for the models that the caller may see.

        Exceptions of models are for callers with a key. Without keys, they need an open repository API.
        """
        live, access = self._dataplane.of(LiveMetrics), self._dataplane.access
        operates = access.repository_open or caller.key is not None
        processes = [
            [
                figures if operates else figures.without_exception()
                for figures in process
                if not figures.model or access.sees(caller, figures.model)
            ]
            for process in await live.read()
        ]
        return json_answer({"bounds": live.bounds, "processes": msgspec.to_builtins(processes)})

    async def _limits(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """Return the limits of the caller's key and what is left of them, as in the headers of responses."""
        return json_answer(self._dataplane.access.rate_limits(caller))

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
