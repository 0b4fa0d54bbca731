"""Bodies in parts: all routes but those of audio refuse them, whose reader is bounded; no part becomes a file."""

import httpx
import pytest

from tests.cve.audited import Audited
from tests.cve.source import imported, nodes
from tests.cve.test_framing import PATHS, exchange

CVES = ("CVE-2024-9056", "CVE-2026-24486")

BOUNDARY = b"a" * 70
PART = b'--%b\r\nContent-Disposition: form-data; name="f"; filename="../../../tmp/evil"\r\n\r\ncontent\r\n--%b--\r\n'

BODIES = {
    "a file": (BOUNDARY, PART % (BOUNDARY, BOUNDARY)),
    "a long boundary": (b"b" * 8_000, PART % (b"b" * 8_000, b"b" * 8_000)),
    "no end": (BOUNDARY, b"--%b\r\n" % BOUNDARY + b"\r\n" * 500_000),
    "almost boundaries": (BOUNDARY, b"--" + BOUNDARY[:-1] * 10_000),
    "hyphens behind the end": (BOUNDARY, b"--%b--" % BOUNDARY + b"-" * 1_000_000),
    "many parts": (BOUNDARY, b"--%b\r\n\r\n\r\n" % BOUNDARY * 20_000),
    "a path": (BOUNDARY, (PART % (BOUNDARY, BOUNDARY)).replace(b"../../../tmp/evil", b"/tmp/evil\0.png")),
}


@pytest.mark.parametrize("name", BODIES)
def test_multipart_body_is_refused_and_writes_no_file(watched: Audited, name: str) -> None:
    boundary, body = BODIES[name]
    before = watched.rss()
    for path in PATHS:
        media = b"Content-Type: multipart/form-data; boundary=" + boundary
        head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        answer = exchange(watched, head % (path.encode(), media, len(body)) + body)
        if path != "/own/post":  # what a model's own route takes is its own affair
            status = answer.split()[1] if answer else b"400"
            assert status.startswith(b"4") or b'"error"' in answer, (path, answer[:200])
    assert watched.done("open") == []
    assert watched.rss() < before + 50 * 2**20


@pytest.mark.parametrize("name", [*BODIES, "a file beyond the limit"])
@pytest.mark.parametrize("path", ["transcriptions", "translations"])
def test_multipart_route_refuses_malformed_parts(watched: Audited, path: str, name: str) -> None:
    boundary, body = BODIES.get(name, (BOUNDARY, bytes(2**22 + 1)))
    before = watched.rss()
    media = {"Content-Type": f"multipart/form-data; boundary={boundary.decode()}"}
    found = httpx.post(f"{watched.url}/v1/audio/{path}", content=body, headers=media, timeout=30)
    assert found.status_code in (400, 413, 415), (found.status_code, found.text[:200])
    assert found.json()["error"].keys() == {"message", "type", "param", "code"}
    assert watched.done("open") == []
    assert watched.rss() < before + 50 * 2**20


def test_uploaded_file_reaches_model_without_disk(watched: Audited) -> None:
    parts = {"file": ("../../../tmp/evil\0.wav", b'{"[' * 1_000_000)}
    url = f"{watched.url}/v1/audio/transcriptions"
    found = httpx.post(url, data={"model": "hearing"}, files=parts, timeout=30)
    assert (found.status_code, found.json()) == (200, {"text": "3000000"})
    assert watched.done("open") == []


def test_form_headers_open_no_other_route(watched: Audited) -> None:
    """On one connection, where headers that were checked are not checked again."""
    asked = httpx.Request("POST", watched.url, data={"model": "hearing"}, files={"file": b"a"})
    headers = {"Content-Type": asked.headers["content-type"]}
    with httpx.Client(base_url=watched.url, headers=headers) as client:
        for path, status in (("/v1/audio/transcriptions", 200), ("/v2/models/echo/infer", 415)) * 2:
            assert client.post(path, content=asked.read()).status_code == status


def test_no_multipart_library_is_imported() -> None:
    parsers = ("multipart", "python_multipart", "cgi", "email.parser")
    found = {
        name
        for name, node in nodes(*parsers, "Form", "UploadFile")
        for each in imported(node)
        if each.startswith(parsers) or each in ("fastapi.Form", "fastapi.UploadFile", "fastapi.File")
    }
    assert found == set()
