"""The files of the page, and the examples of requests."""

import gzip
import re
from importlib.resources import files
from typing import Any

import pytest

from inferstream import Application
from inferstream.plugins.page.files import page_files
from tests.asgi import Client, http, request

FILES = files("inferstream.plugins.page")
ASSETS = FILES.joinpath("assets")
PAGE = {file.name: file.read_text() for file in ASSETS.iterdir() if not file.name.endswith(".txt")}
CLIENT = FILES.joinpath("client", "inferstream.js").read_text()


Answered = tuple[int, dict[bytes, bytes], bytes]


async def get(path: str, *headers: tuple[bytes, bytes], prefix: str = "", **settings: Any) -> Answered:
    """What an application without models answers."""
    client = Client(request(b""))
    async with Application([], **settings) as application:
        scope = http(path, b"", "GET", headers=[*headers], raw_path=path.encode(), root_path=prefix)
        status, body = await client.ask(application.asgi, scope)
    return status, dict(client.sent[0]["headers"]), body


LICENCE = re.compile(r"\A/\* @license.*?\*/", re.S)
"""The notice of a library, with its address."""
IMPORT = re.compile(r'^import .* from "\./(.+)";$', re.M)


CHAT = ("chat.js", "chat_options.js", "messages.js", "markdown.js", "compare.js")
LIVE = ("live.js", "keys.js", "linechart.js", "rates.js", "states.js")


def test_page_size_is_bounded() -> None:
    """The reference, CSV files, chats and the live view load more files when they are needed."""
    modules, waiting = set(), {"page.js"}
    while waiting:
        modules |= waiting
        waiting = {name for each in waiting for name in IMPORT.findall(PAGE[each])} - modules
    loaded = modules | {name for name in PAGE if not name.endswith(".js")}
    assert set(PAGE) - loaded == {"reference.js", "papaparse.js", *CHAT, *LIVE}
    sizes = {name: len(served.response([], b"gzip")[2]) for name, served in page_files().items()}
    sizes["index.html"] = len(gzip.compress(PAGE["index.html"].encode(), 9))
    client = len(gzip.compress(CLIENT.encode(), 9))
    assert sum(sizes.values()) + client <= 90_000
    assert sum(sizes[name] for name in loaded) + client <= 70_000


def test_library_is_served_with_its_notice_and_shipped_with_its_license() -> None:
    _, _, script = page_files()["papaparse.js"].response([], None)
    notice = ASSETS.joinpath("papaparse.js").read_bytes()
    assert script == notice, "it is unchanged"
    version = re.search(rb"v([\d.]+)\n", notice)
    text = ASSETS.joinpath("papaparse-LICENSE.txt").read_text()
    assert version is not None
    assert text.startswith(f"Papa Parse {version[1].decode()}")
    assert "Permission is hereby granted" in text


def test_page_needs_no_other_host_and_no_inline_code() -> None:
    for name, text in PAGE.items():
        text = LICENCE.sub("", text.replace("http://www.w3.org/", ""))
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


def test_each_module_imports_existing_names() -> None:
    for name, text in PAGE.items():
        for found in re.findall(r'^(?:import|export) .*from "(.+)";$', text, re.M):
            assert found == "../inferstream.js" or found.removeprefix("./") in page_files(), (
                f"{name}: {found}"
            )


async def test_page_is_served_only_to_browsers() -> None:
    status, headers, body = await get("/")
    assert (status, headers[b"content-type"], body) == (200, b"application/json", b'{"status":"alive"}')
    status, headers, body = await get("/", (b"accept", b"text/html,*/*;q=0.8"))
    assert (status, headers[b"content-type"]) == (200, b"text/html; charset=utf-8")
    assert headers[b"content-security-policy"] == (
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
        b"media-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert b'src="./page/page.js"' in body


@pytest.mark.parametrize(
    ("path", "prefix", "source"),
    [
        ("/docs", "", b'src="./page/page.js"'),
        ("/v2/docs", "", b'src="../page/page.js"'),
        ("/v2/docs", "/ml", b'src="/ml/page/page.js"'),
        ("/docs", '/"><script>', b'src="/&quot;&gt;&lt;script&gt;/page/page.js"'),
    ],
)
async def test_page_finds_files_from_each_path(path: str, prefix: str, source: bytes) -> None:
    assert source in (await get(path, prefix=prefix))[2]


async def test_unknown_model_has_no_page() -> None:
    status, _, body = await get("/v2/models/nobody/docs")
    assert (status, b"nobody" in body) == (404, True)


@pytest.mark.parametrize("path", ["/docs", "/v2/docs", "/page/page.js"])
async def test_disabled_page_frees_its_paths(path: str) -> None:
    assert (await get(path, page=False))[0] == 404


@pytest.mark.parametrize("path", ["/", "/openapi.json", "/v2/docs/dataplane.json"])
async def test_disabled_page_keeps_documents(path: str) -> None:
    assert (await get(path, page=False))[0] == 200
