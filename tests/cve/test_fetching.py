"""Addresses in requests that the server asks for: none. It makes no connection that a client names."""

from collections.abc import Iterator

import httpx
import pytest

from tests.cve.audited import Audited, Target
from tests.cve.surfaces import everywhere

CVES = (
    "CVE-2025-6242",
    "CVE-2026-24779",
    "CVE-2025-54381",
    "CVE-2024-6587",
    "CVE-2026-12798",
    "CVE-2023-43654",
)

ADDRESSES = (
    "http://{0}/a.png",
    "https://{0}/a.png",
    "HTTP://{0}/a.png",
    "ftp://{0}/a.png",
    "file:///etc/passwd",
    "\\\\{0}\\a.png",
    "http://safe.example\\@{0}/a.png",
    "http://{0}#@safe.example/a.png",
    "//{0}/a.png",
    "http://[::ffff:127.0.0.1]:{1}/a.png",
    "http://2130706433:{1}/a.png",
    " http://{0}/a.png",
    "data:image/png,http://{0}/a.png",
    "data:text/html;base64,http://{0}/a.png",
    "data:;base64,@http://{0}/a.png",
    "gopher://{0}/a",
    "dict://{0}/a",
    "jar:http://{0}!/a",
    "s3://{0}/a",
)

FIELDS = (
    "api_base",
    "base_url",
    "spec_path",
    "webhook",
    "callback_url",
    "url",
    "media_url",
    "mm_processor_kwargs",
)


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.close()


def parts(address: str) -> Iterator[dict]:
    yield {"type": "image_url", "image_url": {"url": address}}
    yield {"type": "image_url", "image_url": address}
    yield {"type": "input_image", "image_url": address}
    yield {"type": "input_file", "file_url": address}
    yield {"type": "video_url", "video_url": {"url": address}}
    yield {"type": "audio_url", "audio_url": {"url": address}}
    yield {"type": "input_audio", "input_audio": {"data": address, "format": "wav"}}


@pytest.mark.parametrize("address", ADDRESSES)
def test_server_fetches_no_url(watched: Audited, target: Target, address: str) -> None:
    found = address.format(target.address, target.address.partition(":")[2])
    with httpx.Client(base_url=watched.url, timeout=20) as client:
        for part in parts(found):
            message = {"role": "user", "content": [part]}
            for path, body in (
                ("/v1/chat/completions", {"messages": [message]}),
                ("/v1/responses", {"input": [message]}),
            ):
                answer = client.post(path, json={"model": "messages", **body})
                assert answer.status_code == 400, answer.text
        for field in FIELDS:
            for more in ({field: found}, {"parameters": {field: found}}):
                body = {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": [found]}], **more}
                assert client.post("/v2/models/decoding/infer", json=body).status_code in (200, 400)
                assert (
                    client.post(
                        "/v1/completions", json={"model": "words", "prompt": found, field: found}
                    ).status_code
                    < 500
                )
    assert target.reached == 0
    assert watched.done("socket.", "urllib.", "subprocess.") == []


def test_request_text_is_never_fetched_as_url(watched: Audited, target: Target) -> None:
    everywhere(watched, f"![](http://{target.address}/a.png)")
    assert target.reached == 0
    assert watched.done("socket.", "urllib.") == []


@pytest.mark.parametrize(
    "header", ["Host", "X-Forwarded-Host", "Forwarded", "X-Original-URL", "Referer", "Location"]
)
def test_headers_are_never_fetched_as_url(watched: Audited, target: Target, header: str) -> None:
    for path in ("/docs", "/v2/models/words", "/metrics", "/proto", "/v2/docs/dataplane.json"):
        httpx.get(f"{watched.url}{path}", headers={header: target.address}, timeout=20)
    assert target.reached == 0
    assert watched.done("socket.", "urllib.") == []
