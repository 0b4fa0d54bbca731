"""The files of the page, and the examples of requests."""

import re
from importlib.resources import files
from typing import Any

import pytest

from inferstream.dataplane.access import Authority
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.dataplane import DataPlane
from inferstream.errors import ModelNotFound
from inferstream.server.rest.dialects.base import ReadRoute
from inferstream.server.rest.dialects.documentation.dialect import Documentation
from inferstream.server.rest.dialects.documentation.files import page_files
from inferstream.server.rest.dialects.metadata import Metadata
from inferstream.server.rest.messages import PREFIX
from inferstream.server.rest.routes import Routes
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import Headers, MetadataModelResponse

FILES = files("inferstream")
PAGE = {file.name: file.read_text() for file in FILES.joinpath("page").iterdir()}
CLIENT = FILES.joinpath("javascript", "inferstream.js").read_text()


class Nobody(DataPlane):
    """Knows no model."""

    def __init__(self) -> None:
        self.access = Authority(Settings())

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        raise ModelNotFound(name, version)


def routes(**settings: Any) -> Routes:
    own = Settings(**settings)
    made = Routes([Metadata(Nobody(), own, Meters())])
    made.add(Documentation(Nobody(), own, Meters()))
    return made


async def get(
    path: str, *headers: tuple[bytes, bytes], **scope: Any
) -> tuple[int, dict[bytes, bytes], bytes]:
    found = routes().of_path(path, "GET")
    assert isinstance(found, ReadRoute)
    whole = {"path": path, "raw_path": path.encode(), "headers": [*headers], **scope}
    status, sent, body = await found.claim.respond(found, Caller(Headers(whole["headers"]), "http"), whole)
    return status, dict(sent), body


IMPORT = re.compile(r'^import .* from "\./(.+)";$', re.M)


def test_all_that_the_page_loads_is_small() -> None:
    """The reference of the API, at an address of its own, loads one module more."""
    modules, waiting = set(), {"page.js"}
    while waiting:
        modules |= waiting
        waiting = {name for each in waiting for name in IMPORT.findall(PAGE[each])} - modules
    loaded = modules | {name for name in PAGE if not name.endswith(".js")}
    assert set(PAGE) - loaded == {"reference.js"}
    assert sum(len(PAGE[name].encode()) for name in loaded) + len(CLIENT.encode()) <= 160_000


def test_the_page_needs_no_other_host_and_nothing_inline() -> None:
    for name, text in PAGE.items():
        text = text.replace("http://www.w3.org/", "")
        assert not re.search(r"https?://\w", text), name
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ):
            assert word not in text, f"{name}: {word}"
    assert "<style" not in PAGE["index.html"]
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=|style=", PAGE["index.html"])


def test_each_module_imports_what_is_there() -> None:
    for name, text in PAGE.items():
        for found in re.findall(r'^(?:import|export) .*from "(.+)";$', text, re.M):
            assert found == "../inferstream.js" or found.removeprefix("./") in page_files(), (
                f"{name}: {found}"
            )


async def test_a_browser_gets_the_page_and_others_get_what_they_got() -> None:
    assert await get("/") == (200, {b"content-type": b"application/json"}, b'{"status":"alive"}')
    status, headers, body = await get("/", (b"accept", b"text/html,*/*;q=0.8"))
    assert (status, headers[b"content-type"]) == (200, b"text/html; charset=utf-8")
    assert headers[b"content-security-policy"] == (
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
        b"media-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert b'src="./page/page.js"' in body


@pytest.mark.parametrize(
    ("path", "scope", "source"),
    [
        ("/docs", {}, b'src="./page/page.js"'),
        ("/v2/docs", {}, b'src="../page/page.js"'),
        ("/v2/docs", {PREFIX: "/ml"}, b'src="/ml/page/page.js"'),
        ("/docs", {PREFIX: '/"><script>'}, b'src="/&quot;&gt;&lt;script&gt;/page/page.js"'),
    ],
)
async def test_the_page_finds_its_files_from_each_path(
    path: str, scope: dict[str, str], source: bytes
) -> None:
    assert source in (await get(path, **scope))[2]


async def test_an_unknown_model_has_no_page() -> None:
    with pytest.raises(ModelNotFound):
        await get("/v2/models/nobody/docs")


def test_without_the_page_its_paths_are_free_and_the_documents_stay() -> None:
    found = routes(page=False)
    for path in ("/docs", "/v2/docs", "/page/page.js"):
        assert found.of_path(path, "GET") is None
    for path in ("/", "/openapi.json", "/v2/docs/dataplane.json"):
        assert found.of_path(path, "GET") is not None
