"""The files of the page, and the examples of requests."""

import re
from importlib.resources import files
from typing import Any

import pytest

from inferstream import App
from inferstream.codecs.values.flat import FlatArguments
from inferstream.dataplane.access import Access
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.dataplane import DataPlane
from inferstream.errors import ModelNotFound
from inferstream.server.rest.dialects.base import ReadRoute, ScopeClaim
from inferstream.server.rest.dialects.documentation.dialect import Documentation
from inferstream.server.rest.dialects.documentation.examples import example_arguments, example_request
from inferstream.server.rest.dialects.documentation.files import StaticFile, page_document, page_files
from inferstream.server.rest.dialects.metadata import Metadata
from inferstream.server.rest.messages import PREFIX
from inferstream.server.rest.routes import Routes
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import Headers, MetadataModelResponse, MetadataTensor

FILES = files("inferstream")
PAGE = {file.name: file.read_text() for file in FILES.joinpath("page").iterdir()}
CLIENT = FILES.joinpath("javascript", "inferstream.js").read_text()


class Nobody(DataPlane):
    """Knows no model."""

    def __init__(self) -> None:
        self.access = Access(Settings())

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        raise ModelNotFound(name, version)


def routes(**settings: Any) -> Routes:
    own = Settings(**settings)
    return Routes([dialect(Nobody(), own, Meters()) for dialect in (Metadata, Documentation)])


async def get(
    path: str, *headers: tuple[bytes, bytes], **scope: Any
) -> tuple[int, dict[bytes, bytes], bytes]:
    found = routes().of_path(path, "GET")
    assert isinstance(found, ReadRoute)
    assert isinstance(found.claim, ScopeClaim)
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


def test_a_file_is_sent_once_and_each_form_has_a_validator_of_its_own() -> None:
    file = StaticFile(b"body" * 100, [])
    status, headers, body = file.response([], True)
    plain = dict(headers)[b"etag"]
    assert (status, body) == (200, b"body" * 100)
    _, headers, body = file.response([(b"accept-encoding", b"gzip")], True)
    packed = dict(headers)
    assert packed[b"content-encoding"] == b"gzip"
    assert packed[b"etag"] != plain
    assert len(body) < 100
    known = [(b"if-none-match", b'"a", ' + packed[b"etag"]), (b"accept-encoding", b"gzip")]
    status, headers, body = file.response(known, True)
    assert (status, body) == (304, b"")
    assert b"content-encoding" not in dict(headers)
    assert file.response(known, False)[0] == 200
    assert page_document("./") is page_document("./")


APP = """
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal
import numpy as np
from pydantic import BaseModel, Field
from inferstream import App, TensorInput

app = App()

@dataclass
class Point:
    x: int
    label: str

class Tree(BaseModel):
    left: "Tree | None"
    leaves: list["Tree"]

@app.model
def f(
    text: str,
    point: Point,
    tree: Tree,
    low: Annotated[int, Field(gt=4, le=9, description="Between 5 and 9.")],
    x: TensorInput[np.float32, "batch", 2],
    texts: list[str],
    day: date,
    file: bytes,
    flag: bool = False,
    word: Literal["a", "b"] = "b",
    maybe: int | None = 5,
) -> str: ...
"""


@pytest.fixture(scope="module")
def inputs() -> tuple[MetadataTensor, ...]:
    import sys
    import types

    module = types.ModuleType("documented_app")
    sys.modules["documented_app"] = module
    exec(APP, module.__dict__)
    app: App = module.app
    found = app["f"].signature().inputs
    assert found is not None
    return found


def test_the_example_is_taken_by_the_model(inputs: tuple[MetadataTensor, ...]) -> None:
    example = example_arguments(inputs)
    assert example["point"] == {"x": 0, "label": "text"}
    assert example["low"] == 5
    read = FlatArguments(inputs, True).read(example)
    assert [tensor.name for tensor in read] == ["text", "point", "tree", "low", "x", "texts", "day", "file"]
    tensors = example_request(inputs)["inputs"]
    assert [tensor["shape"] for tensor in tensors[:5]] == [[1], [1], [1], [1], [1, 2]]
    assert tensors[-2]["data"] == ["b"]
