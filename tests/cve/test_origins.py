"""Who may ask: pages of other origins, names made to lead here, and paths that hide what they ask for.

The routes are those that the server claims, so a new one is refused to such pages or fails here.
"""

import hashlib
import json
import re
import socket
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

import grpc
import httpx
import pytest

from inferstream import Application
from inferstream.dataplane.cancelling import Credentials
from inferstream.protos.dataplane_pb2 import RepositoryIndexRequest, RepositoryModelLoadRequest
from inferstream.server.rest.app import PROBES
from inferstream.server.rest.dialects.base import InferenceDialect
from inferstream.server.rest.routes import PLACEHOLDER
from inferstream.server.rest.routing import build_routes
from tests.cve.audited import Audited
from tests.faults.test_origins import FOREIGN
from tests.grpc_web import SERVICE, call
from tests.serving import Running, write_model

CVES = ("CVE-2026-24207", "CVE-2026-48710", "CVE-2025-59425", "CVE-2026-27482", "CVE-2023-48022")

OWN = (("POST", "/own/post"), ("GET", "/own/get"), ("PUT", "/own/put"), ("DELETE", "/own/delete"))

OPEN = PROBES
"""Liveness and readiness, which every page may ask for. `/` is the page for whoever asks for HTML, as these do."""


def routes() -> list[tuple[str, str]]:
    """Method and path of all that dialects serve, and of routes of a model's own."""
    application = Application([])
    found = set(OWN)
    built = build_routes(application._backend.dataplane, application.settings, application.meters)
    for made in built.dialects:
        found |= {
            (method, claim.path) for claim in made.reads() for method in claim.methods or ("GET", "POST")
        }
        if isinstance(made, InferenceDialect):
            found |= {("POST", path) for path in made.inferences}
    return sorted(found)


def filled(path: str) -> Iterator[str]:
    """A path of the model, and of its version where it may have one."""
    name = "words" if "generate" in path or "/v1/" in path else "echo"
    yield PLACEHOLDER.sub(lambda found: name if found[1].endswith("name") else "a", path)
    if "{name}" in path or "{model_name}" in path:
        yield PLACEHOLDER.sub("nobody", path)


ROUTES = routes()


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_foreign_origin_is_refused_by_every_route(watched: Audited, headers: dict) -> None:
    assert len(ROUTES) > 50
    sent = {"Content-Type": "text/plain", "Accept": "text/html, text/event-stream", **headers}
    with httpx.Client(base_url=watched.url, timeout=20, headers=sent) as client:
        for method, path in ROUTES:
            for target in filled(path):
                if target in OPEN:
                    continue
                found = client.request(method, target, content=b"{}" if method in ("POST", "PUT") else None)
                refused = found.status_code == 403 or b"permission_denied" in found.content
                assert refused, (method, target, found.status_code, found.text[:200])
    metrics = httpx.get(f"http://127.0.0.1:{watched.metrics_port}/metrics", headers=headers)
    assert metrics.status_code == 403


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_foreign_origin_is_refused_by_every_rpc(watched: Audited, headers: dict) -> None:
    rpcs = [
        "ServerLive",
        "ServerMetadata",
        "ModelInfer",
        "ModelStreamInfer",
        "RepositoryIndex",
        "ModelMetadata",
    ]
    for method in rpcs:
        sent = {"Content-Type": "application/grpc-web", **headers}
        target = f"{watched.url}/{SERVICE}/{method}"
        found = httpx.post(target, content=b"\0\0\0\0\0", headers=sent, timeout=20)
        assert b"grpc-status:7" in found.content


def test_own_pages_and_programs_reach_every_route(watched: Audited) -> None:
    """The same requests without what makes them foreign: none of the refusals above was for anything else."""
    with httpx.Client(base_url=watched.url, timeout=20) as client:
        for method, path in ROUTES:
            for target in filled(path):
                body = b"{}" if method in ("POST", "PUT") and "unload" not in path else None
                headers = {"Origin": watched.url} if method != "GET" else {}
                with client.stream(method, target, content=body, headers=headers) as found:
                    assert found.status_code != 403, (method, target)
            if path.endswith("/unload"):
                load = path.replace("{name}", "echo").removesuffix("unload") + "load"
                assert client.post(load).status_code == 200


CLOSED = ("/v2/repository/index", "/v2/repository/models/echo/load", "/v2/repository/models/echo/unload")

DISGUISES = (
    "{}",
    "/{}",
    "{}/",
    "{}?",
    "{}#/v2/health/live",
    "{};/v2/health/live",
    "{}%20",
    "{}%00",
    "/v2/health/live/..{}",
    "/v2/health/live/%2e%2e/%2e%2e/%2e%2e{}",
    "/.{}",
    "http://x/v2/health/live?{}",
    "http://127.0.0.1{}",
    "http://x{}",
)

HOSTS = ("127.0.0.1", "x/v2/health/live?", "x?/v2/health/live#", "x/v2/health/live", "x\\v2\\health\\live")

FORWARDED = (
    "X-Original-URL: /v2/health/live\r\nX-Rewrite-URL: /v2/health/live\r\nX-HTTP-Method-Override: GET",
    "X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1;host=localhost\r\nX-Real-IP: 127.0.0.1",
    "X-Forwarded-Host: localhost\r\nX-Forwarded-Prefix: /v2/health/live\r\nX-Middleware-Subrequest: 1",
)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server beyond loopback, whose repository is closed."""
    folder = tmp_path_factory.mktemp("closed") / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    running = Running(folder, "--host", "0.0.0.0", within=90)
    yield running
    assert running.stop() == 0, running.text()


def status(
    server: Running, target: str, host: str, more: str = "", method: str = "POST"
) -> tuple[int, bytes]:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=20) as opened:
        head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}{more and chr(13) + chr(10)}"
        opened.sendall(f"{head}Connection: close\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        found = b"".join(iter(lambda: opened.recv(65_536), b""))
    return (int(found.split()[1]) if found else 0), found


@pytest.mark.parametrize("path", [*CLOSED, "/v2/access"])
def test_disguised_path_opens_nothing(closed: Running, path: str) -> None:
    method = "GET" if path == "/v2/access" else "POST"
    for disguise in DISGUISES:
        code, answer = status(closed, disguise.format(path), "127.0.0.1", method=method)
        alive = answer.endswith(b'{"live":true}')  # the path before the question mark is that of liveness
        assert alive or code in (0, 400, 403, 404, 405), (disguise, answer)
    for each in (path.upper(), path.replace("repository", "%72epository"), path.replace("/v2", "/V2")):
        assert status(closed, each, "127.0.0.1", method=method)[0] in (403, 404, 405), each
    closed.probe()


@pytest.mark.parametrize("more", ["", *FORWARDED])
@pytest.mark.parametrize("host", HOSTS)
def test_headers_open_no_closed_route(closed: Running, host: str, more: str) -> None:
    for path in CLOSED:
        assert status(closed, path, host, more)[0] in (400, 403), (path, host)
    assert closed.infer("echo", {"inputs": []}).status_code == 200


ELSEWHERE = "elsewhere.example"

NAMING = (
    "",
    f"X-Forwarded-Host: {ELSEWHERE}\r\nX-Forwarded-Proto: https\r\nForwarded: host={ELSEWHERE};proto=https",
    f"X-Forwarded-Prefix: //{ELSEWHERE}\r\nX-Script-Name: /{ELSEWHERE}\r\nX-Original-URL: //{ELSEWHERE}/",
    f"Accept: text/html\r\nX-Host: {ELSEWHERE}\r\nReferer: http://{ELSEWHERE}/",
)


@pytest.mark.parametrize("more", NAMING)
def test_host_header_is_not_reflected(closed: Running, more: str) -> None:
    """No URL in an answer, and no redirect, leads to where a client or a proxy says that the server is."""
    for method, path in ROUTES:
        if path.startswith("/own/") or path.endswith("/stream"):
            continue
        for target in filled(path):
            for named in (target, f"{target}/", f"/{target}", f"http://{ELSEWHERE}{target}"):
                code, answer = status(closed, named, ELSEWHERE, more, method)
                assert ELSEWHERE.encode() not in answer, (method, named, answer[:300])
                assert not 300 <= code < 400, (method, named)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose one key may ask the model `words`, and no other."""
    folder = tmp_path_factory.mktemp("keyed")
    for name in ("echo", "words"):
        write_model(folder / "models", name, "faulty_models.Echo")
    entry = {"id": "words", "principal": "words", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}
    rights = {"scopes": ["infer", "stream"], "models": ["words"]}
    (folder / "keys.json").write_text(json.dumps({"version": 1, "keys": [entry | rights]}))
    running = Running(folder / "models", within=90, INFERSTREAM_KEYS_FILE=str(folder / "keys.json"))
    yield running
    assert running.stop() == 0, running.text()


KEY = "ifs_words_" + "k" * 43

OTHER_SPELLINGS = (
    *DISGUISES,
    "{}//",
    "/v2/models/words/..{}",
    "/page/..{}",
    "{}/versions/1",
    "{}/ready?",
    "{}?/docs",
    "{}%2f",
    "{}%252f",
    "{}\\",
    "/%2e{}",
)
FOR_EVERYBODY = re.compile(
    r"/(v2/health/(live|ready)|health|ping|docs|v2/docs|inferstream.js|page/.*|.*/(docs|ready))?"
)


def spellings(path: str) -> Iterator[str]:
    """A path as it stands, disguised, and with its parts in capitals, doubled or encoded."""
    yield from (form.format(path) for form in OTHER_SPELLINGS)
    yield from (path.upper(), path.replace("/", "//"), path.replace("/", "\\"))
    yield f"/{path[1:].replace('/', '%2F')}"
    yield f"/{path[1:].replace('/', '%252F')}"
    yield "".join(each if each == "/" else f"%{ord(each):02x}" for each in path)


def test_every_spelling_of_a_route_needs_key(keyed: Running) -> None:
    """Without a key nothing is served but what is open to everybody, and of `echo` nothing to a key without it."""
    served = 0
    for method, path in ROUTES:
        if path.startswith("/own/"):
            continue
        target = PLACEHOLDER.sub(lambda found: "echo" if found[1].endswith("name") else "a", path)
        for spelling in spellings(target):
            code, answer = status(keyed, spelling, "127.0.0.1", method=method)
            read = unquote(urlsplit(spelling).path if "://" in spelling else re.split(r"[?#]", spelling)[0])
            if FOR_EVERYBODY.fullmatch(read.rstrip("/") or "/"):
                continue
            assert not 200 <= code < 300, (method, spelling, answer[:200])
            assert code < 500 or code == 501, (method, spelling, answer[:200])
            code, answer = status(keyed, spelling, "127.0.0.1", f"Authorization: Bearer {KEY}", method)
            served += code == 200
            assert b'"echo"' not in answer or code != 200, (method, spelling, answer[:300])
    assert served > 100  # of the routes that name no model: the key is valid
    headers = {"Authorization": f"Bearer {KEY}"}
    assert keyed.infer("words", {"inputs": []}, headers=headers).status_code == 200


def test_closed_routes_are_closed_on_every_transport(closed: Running) -> None:
    load, index = RepositoryModelLoadRequest(model_name="echo"), RepositoryIndexRequest()
    rpcs = {"RepositoryIndex": index, "RepositoryModelLoad": load, "RepositoryModelUnload": load}
    for service in (SERVICE, "inference.model_repository.ModelRepositoryService"):
        for method, message in rpcs.items():
            with grpc.insecure_channel(closed.grpc) as channel, pytest.raises(grpc.RpcError) as failed:
                channel.unary_unary(f"/{service}/{method}")(message.SerializeToString(), timeout=20)
            assert failed.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert call(closed.url, method, message.SerializeToString(), service=service).status == 7
    closed.probe()


def test_credentials_are_compared_as_digests() -> None:
    """How long a comparison takes says nothing of a key, because a client does not choose the digest of its guess."""
    credentials = Credentials(["Authorization"])
    near, far, own = (
        credentials.of({"authorization": f"Bearer {key}"}, None) for key in ("aaaa", "zzzz", "aaab")
    )
    assert len({near, far, own}) == 3
    assert len(near) == len(far) == 32
    assert "aaa" not in near
