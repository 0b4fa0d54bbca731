"""Sources of remote URIs that lie: about lengths, digests, ranges and versions, with names, lists and bodies."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import re
import resource
import ssl
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferstream.errors import InferstreamError
from inferstream.plugins.sources import blobs, objects_program
from inferstream.plugins.sources.blobs import BlobCache
from inferstream.repository import archives
from inferstream.settings import Settings
from tests import lying
from tests.certificates import Authority
from tests.lying import Answer, Liar, endless, layer, part, registry, store
from tests.serving import Running, eventually, write_model

CVES = ("CVE-2025-8194", "CVE-2024-6232", "CVE-2025-66471")

MB = 2**20
MOST = 8 * MB
"""Bytes that a URI may bring in these tests."""

CONTENT = b"0123456789"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def tls(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    context = ssl.create_default_context(cafile=str(authority.pem))
    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: client(verify=context, **options))
    return authority.issue("server")


class Fetching:
    """A cache in a folder of its own, and what it may not touch around it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / "around"
        self.cache = self.root / "cache"
        self.cache.mkdir(parents=True)
        self._patch = monkeypatch

    trusted = True
    """Files without trust need a suffix of the list, and the names of lies are short."""

    def __call__(self, liar: Liar, uri: str, most: int = MOST) -> Path:
        for name, value in liar.environment().items():
            self._patch.setenv(name, value)
        cache = BlobCache(Settings(sources_dir=str(self.cache), max_fetch_bytes=most))
        return asyncio.run(asyncio.wait_for(cache.fetch(uri, self.trusted), 60))

    def refused(self, liar: Liar, uri: str, most: int = MOST) -> str:
        """The one line of a fetch that fails, after which nothing is left, in the cache or around it."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(InferstreamError) as raised:
            self(liar, uri, most)
        message = raised.value.message
        assert "\n" not in message
        assert "s3cr3t" not in message
        assert str(self.root) not in message
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024, "memory in KB"
        assert os.listdir(self.root) == ["cache"]
        assert not [*(self.cache / "versions").glob("*")]
        assert self.used() < MB
        return message

    def used(self) -> int:
        return sum(path.lstat().st_blocks * 512 for path in self.cache.rglob("*"))


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetching:
    return Fetching(tmp_path, monkeypatch)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# One file over HTTPS

BOMB = gzip.compress(bytes(64 * MB))

HTTPS: dict[str, tuple[Callable[[str, Any, Any], Answer], str]] = {
    "a length that is too long": (
        lambda *_: (200, {"content-length": "20", "etag": '"1"'}, CONTENT),
        "RemoteProtocolError",
    ),
    "a length beyond the limit": (
        lambda *_: (200, {"content-length": str(10**15)}, CONTENT),
        "more than 8.39 MB, which max_fetch_bytes allows",
    ),
    "a negative length": (
        lambda *_: (200, {"content-length": "-5"}, CONTENT),
        "RemoteProtocolError|LocalProtocolError",
    ),
    "two lengths": (
        lambda *_: (200, {"content-length": "5", "Content-Length": "10"}, CONTENT),
        "RemoteProtocolError|LocalProtocolError|has 5 bytes",
    ),
    "an endless body": (lambda *_: (200, {}, endless()), "max_fetch_bytes"),
    "an endless body with an ETag": (lambda *_: (200, {"etag": '"1"'}, endless()), "max_fetch_bytes"),
    "a redirect that goes round": (lambda path, *_: (302, {"location": path}, b""), "TooManyRedirects"),
    "a redirect to http": (
        lambda *_: (302, {"location": "http://127.0.0.1:1/x"}, b""),
        "leads to a URL without TLS",
    ),
    "a redirect to a file": (
        lambda *_: (302, {"location": "file:///etc/passwd"}, b""),
        "without TLS|UnsupportedProtocol",
    ),
    "an endless header": (
        lambda *_: (200, {f"x-{i}": "y" * 1000 for i in range(2000)}, b""),
        "RemoteProtocolError|LocalProtocolError",
    ),
    "an endless error": (lambda *_: (500, {}, endless()), "500"),
}


@pytest.mark.parametrize("lie", HTTPS)
def test_false_file_over_https_is_refused(fetch: Fetching, tls: dict[str, str], lie: str) -> None:
    answer, expected = HTTPS[lie]
    with Liar(answer, tls) as liar:
        uri = f"{liar.url.replace('//', '//user:s3cr3t@')}/model.bin?key=s3cr3t"
        assert any(each in fetch.refused(liar, uri) for each in expected.split("|"))
        assert liar.sent < MOST + 64 * MB


def test_body_longer_than_content_length_is_truncated(fetch: Fetching, tls: dict[str, str]) -> None:
    with Liar(lambda *_: (200, {"content-length": "4"}, CONTENT), tls) as liar:
        assert files_of(fetch(liar, f"{liar.url}/model.bin")) == {"model.bin": CONTENT[:4]}


def test_content_encoding_is_not_decoded(fetch: Fetching, tls: dict[str, str]) -> None:
    with Liar(lambda *_: (200, {"content-encoding": "gzip"}, BOMB), tls) as liar:
        assert files_of(fetch(liar, f"{liar.url}/model.bin")) == {"model.bin": BOMB}


def test_a_wrong_digest_over_https_is_refused(fetch: Fetching, tls: dict[str, str]) -> None:
    with Liar(lambda *_: (200, {}, CONTENT), tls) as liar:
        assert "has the digest" in fetch.refused(liar, f"{liar.url}/model.bin#sha256={'0' * 64}")


def cut_then(second: Callable[[str], Answer]) -> Callable[[str, Any, Any], Answer]:
    """A transfer that is cut off after half of the file, and what answers the request for the rest."""

    def answer(_: str, __: Any, headers: Any) -> Answer:
        if headers["range"]:
            return second(headers["range"])
        return 200, {"content-length": "10", "etag": '"1"'}, CONTENT[:5]

    return answer


SECONDS = {
    "another ETag": (
        lambda _: (206, {"content-range": "bytes 5-9/10", "etag": '"2"'}, b"evils"),
        "has changed",
    ),
    "another part": (
        lambda _: (206, {"content-range": "bytes 0-4/10", "etag": '"1"'}, b"evils"),
        "another part of a file",
    ),
    "several parts": (
        lambda _: (206, {"content-type": "multipart/byteranges", "content-range": "none"}, b"evils"),
        "another part of a file",
    ),
    "too much": (
        lambda _: (206, {"content-range": "bytes 5-9/10", "etag": '"1"'}, endless()),
        "more bytes than the 10",
    ),
    "a changed file": (lambda _: (412, {}, b""), "HTTPStatusError 412"),
    "nothing, always": (lambda _: (416, {}, b""), "has 5 bytes, and its source says 10"),
}


@pytest.mark.parametrize("lie", SECONDS)
def test_wrong_content_range_is_refused(fetch: Fetching, tls: dict[str, str], lie: str) -> None:
    second, expected = SECONDS[lie]
    with Liar(cut_then(second), tls) as liar:
        assert expected in fetch.refused(liar, f"{liar.url}/model.bin")


def test_stalled_source_times_out(
    fetch: Fetching, tls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stalled(liar: list[Liar]) -> Iterator[bytes]:
        yield CONTENT
        liar[0].stopped.wait(60)

    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: client(**{**options, "timeout": 0.3}))
    made: list[Liar] = []
    with Liar(lambda *_: (200, {}, stalled(made)), tls) as liar:
        made.append(liar)
        assert "ReadTimeout" in fetch.refused(liar, f"{liar.url}/model.bin")


# Archives


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type = size, kind
    return made


class Zeros(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        return bytes(size)


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header as `tarfile` writes it, with a size that the archive does not have."""
    buffer = bytearray(member(name, 0, kind).tobuf(tarfile.GNU_FORMAT))
    buffer[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    buffer[148:156] = b" " * 8
    buffer[148:156] = b"%06o\0 " % sum(buffer[:512])
    return bytes(buffer)


def sparse() -> bytes:
    made = member("sparse", 0)
    made.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(10**13), "GNU.sparse.name": "sparse"}
    return lying.tarred([(made, b"")])


ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "zeros": (lambda: lying.tarred([(member("zeros", 600 * MB), Zeros())]), "more than"),
    "many members": (lambda: lying.tarred([(member(f"m{i}"), b"") for i in range(101)]), "100 members"),
    "a long name": (lambda: gzip.compress(header("x", 400 * MB, b"L") + bytes(200 * MB)), "a header"),
    "a long attribute": (lambda: gzip.compress(header("x", 400 * MB, b"x") + bytes(200 * MB)), "a header"),
    "a negative size": (lambda: gzip.compress(header("x", -1024) + bytes(10240)), "a negative size"),
    "a negative name": (lambda: gzip.compress(header("x", -1024, b"L") + bytes(10240)), "a header"),
    "a sparse file": (sparse, "more than"),
    "a size beyond the archive": (lambda: gzip.compress(header("x", 10**14) + bytes(512)), "more than"),
    "a deep path": (lambda: lying.tarred([(member("/".join("a" * 200)), b"")]), "64 folders"),
    "a mark of the cache": (lambda: lying.tarred([(member("m/.untrusted"), b"")]), ".untrusted"),
}


@pytest.mark.parametrize("lie", ARCHIVES)
@pytest.mark.parametrize("scheme", ["https", "oci", "s3"])
def test_archive_size_is_bounded(
    fetch: Fetching, tls: dict[str, str], scheme: str, lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 100)
    fetch.trusted = False
    make, expected = ARCHIVES[lie]
    content = make()
    liars = {
        "https": lambda: Liar(lambda _, __, headers: part(content, headers), tls),
        "oci": lambda: registry([(content, layer(content, None))]),
        "s3": lambda: single(content),
    }
    with liars[scheme]() as liar:
        uri = {"https": f"{liar.url}/m.tar.gz", "oci": f"oci://{liar.host}/m", "s3": "s3://bucket/m.tar.gz"}
        assert expected in fetch.refused(liar, uri[scheme], 300 * MB)


def single(content: bytes) -> Liar:
    """The one object at a path."""
    headers = {"etag": '"e"', "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    return store("s3", [], lambda _, asked: part(content, asked, **headers))


# Registries

LAYERS: dict[str, tuple[list[tuple[Any, dict[str, Any]]], str]] = {
    "another content": ([(b"evilevil10", layer(CONTENT, "m"))], "has the digest"),
    "less": ([(CONTENT[:5], layer(CONTENT, "m"))], "has 5 bytes"),
    "more": ([(CONTENT * 2, layer(CONTENT, "m"))], "more bytes than the 10"),
    "an endless layer": ([(endless(), layer(CONTENT, "m"))], "more bytes than the 10"),
    "a size beyond the limit": ([(CONTENT, layer(CONTENT, "m", size=10**15))], "max_fetch_bytes"),
    "a negative size": ([(CONTENT, layer(CONTENT, "m", size=-10))], "malformed"),
    "a size that is a text": ([(CONTENT, layer(CONTENT, "m", size="10"))], "malformed"),
    "a weak digest": (
        [(CONTENT, layer(CONTENT, "m", digest="md5:781e5e245d69b566979b86e28d23f2c7"))],
        "malformed",
    ),
    "a digest that is a path": ([(CONTENT, layer(CONTENT, "m", digest="../../x"))], "malformed"),
    "a path upwards": ([(CONTENT, layer(CONTENT, "../x"))], "leads outside"),
    "an absolute path": ([(CONTENT, layer(CONTENT, "/tmp/x"))], "leads outside"),
    "a null byte": ([(CONTENT, layer(CONTENT, "a\0b"))], "leads outside"),
    "no name": ([(CONTENT, layer(CONTENT, ""))], "leads outside"),
    "a name that is a number": ([(CONTENT, layer(CONTENT, 5))], "malformed"),  # type: ignore[arg-type]
    "two of one name": ([(CONTENT, layer(CONTENT, "m")), (b"2", layer(b"2", "m"))], "two files of one path"),
    "a file that is a folder": (
        [(CONTENT, layer(CONTENT, "m")), (b"2", layer(b"2", "m/x"))],
        "cannot be fetched",
    ),
    "a mark of the cache": ([(CONTENT, layer(CONTENT, "m/.untrusted"))], ".untrusted"),
    "a deep path": ([(CONTENT, layer(CONTENT, "a/" * 200 + "x"))], "too deep"),
    "notes that are a list": ([(CONTENT, {**layer(CONTENT, "m"), "annotations": [1]})], "malformed"),
}


@pytest.mark.parametrize("lie", LAYERS)
def test_false_layer_is_refused(fetch: Fetching, lie: str) -> None:
    layers, expected = LAYERS[lie]
    with registry(layers) as liar:
        assert expected in fetch.refused(liar, f"oci://{liar.host}/m")


MANIFESTS: dict[str, tuple[Callable[[], Answer], str]] = {
    "an endless manifest": (lambda: (200, {}, endless()), "more than 4,000,000 bytes"),
    "a compressed manifest": (lambda: (200, {"content-encoding": "gzip"}, BOMB), "a coding"),
    "an endless error": (lambda: (500, {}, endless()), "more than 4,000,000 bytes"),
    "no JSON": (lambda: (200, {}, b"<html>"), "malformed"),
    "a list": (lambda: (200, {}, b"[1]"), "malformed"),
    "deep JSON": (lambda: (200, {}, b"[" * 200_000), "malformed"),
    "layers of nothing": (lambda: (200, {}, b'{"layers": [{}]}'), "malformed"),
    "an empty index": (lambda: (200, {}, b'{"manifests": []}'), "malformed"),
    "no layers": (lambda: (200, {}, b"{}"), "has no files"),
    "another digest": (lambda: (200, {}, b"{}"), "has the digest"),
    "many layers": (
        lambda: (200, {}, json.dumps({"layers": [layer(b"", str(i)) for i in range(20_000)]}).encode()),
        "more than",
    ),
    "a login elsewhere": (
        lambda: (401, {"www-authenticate": 'Bearer realm="file:///etc/passwd"'}, b""),
        "UnsupportedProtocol",
    ),
}


@pytest.mark.parametrize("lie", MANIFESTS)
def test_false_manifest_is_refused(fetch: Fetching, lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "MAX_FILES", 10_000)
    manifest, expected = MANIFESTS[lie]
    reference = f"@sha256:{'0' * 64}" if lie == "another digest" else ""
    with registry([], manifest()) as liar:
        assert expected in fetch.refused(liar, f"oci://{liar.host}/m{reference}")


@pytest.mark.parametrize("token", [endless, lambda: BOMB])
def test_login_response_size_is_bounded(fetch: Fetching, token: Callable[[], Any]) -> None:
    def answer(path: str, _: Any, __: Any) -> Answer:
        if path == "/token":
            body = token()
            return 200, {"content-encoding": "gzip"} if isinstance(body, bytes) else {}, body
        return 401, {"www-authenticate": f'Bearer realm="{made[0].url}/token"'}, b""

    made: list[Liar] = []
    with Liar(answer) as liar:
        made.append(liar)
        # A body that is refused by its encoding may leave a connection that the source has closed.
        assert re.match(
            "127.0.0.1 answers|.*RemoteProtocolError", fetch.refused(liar, f"oci://{liar.host}/m")
        )


# The hub


def sibling(name: Any, size: Any = 10, content: bytes = CONTENT) -> dict[str, Any]:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return {"rfilename": name, "size": size, "blobId": blob}


HUB: dict[str, tuple[Any, Any, str]] = {
    "a path upwards": ([sibling("../x")], CONTENT, "leads outside"),
    "an absolute path": ([sibling("/x")], CONTENT, "leads outside"),
    "another content": ([sibling("m")], b"evilevil10", "has the digest"),
    "less": ([sibling("m")], CONTENT[:5], "has 5 bytes"),
    "more": ([sibling("m")], endless(), "more bytes than the 10"),
    "a negative size": ([sibling("m", -1)], CONTENT, "its source says -1"),
    "a size beyond the limit": ([sibling("m", 10**15)], CONTENT, "max_fetch_bytes"),
    "many files": ([sibling(str(i)) for i in range(10_001)], CONTENT, "more than 10,000 files"),
    "names that are numbers": ([sibling(5)], CONTENT, "cannot be fetched"),
    "an endless list": (None, endless(), "more than 4,000,000 bytes"),
    "a compressed list": (None, BOMB, "a coding"),
}


@pytest.mark.parametrize("lie", HUB)
def test_false_hub_response_is_refused(fetch: Fetching, lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants

    monkeypatch.setattr(blobs, "MAX_FILES", 10_000)
    files, content, expected = HUB[lie]

    def answer(path: str, _: Any, headers: Any) -> Answer:
        if path.startswith("/api/") and files is not None:
            return 200, {}, json.dumps({"sha": "1" * 40, "siblings": files}).encode()
        if files is None:
            return 200, {"content-encoding": "gzip"} if content is BOMB else {}, content
        return part(content, headers) if isinstance(content, bytes) else (200, {}, content)

    with Liar(answer) as liar:
        monkeypatch.setattr(constants, "ENDPOINT", liar.url)
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", liar.url)
        monkeypatch.setattr(
            "huggingface_hub.hf_api.HfApi.__init__",
            lambda self, *_, **__: setattr(self, "endpoint", liar.url),
        )
        monkeypatch.setattr(
            "huggingface_hub.hf_hub_url", lambda model, path, revision: f"{liar.url}/{model}/{path}"
        )
        assert expected in fetch.refused(liar, "hf://org/model")


# Object stores

STORES = {"s3": "s3://bucket/m", "gs": "gs://bucket/m", "az": "az://account/container/m"}


def served(_: str, headers: Any) -> Answer:
    return part(CONTENT, headers, etag="e", **{"last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"})


def read(status: int, body: Any, **headers: str) -> Callable[[str, Any], Answer]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    dated = {"etag": '"e"', "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    return lambda *_: (status, {**dated, **named}, body)


OBJECTS: dict[str, tuple[list[tuple[str, Any]], Callable[[str, Any], Answer], str]] = {
    "a path upwards": ([("m/../../x", 10)], served, "Error"),
    "two of one name": ([("m/x", 10), ("m/x", 10)], served, "two files of one path"),
    "a negative size": ([("m/x", -1)], served, "Error"),
    "a size beyond the limit": ([("m/x", 10**15)], served, "max_fetch_bytes"),
    "less": ([("m/x", 10)], read(206, CONTENT[:5], content_range="bytes 0-4/10"), "Error"),
    "the whole": ([("m/x", 10)], read(200, CONTENT), "Error"),
    "another part": ([("m/x", 10)], read(206, CONTENT, content_range="bytes 5-14/20"), "Error"),
    "an endless part": (
        [("m/x", 10)],
        lambda *_: read(206, endless(), content_range="bytes 0-9/10")(*_),
        "sends more|Error",
    ),
    "an endless error": ([("m/x", 10)], lambda *_: read(403, endless())(*_), "sends more|Error"),
    "a changed object": ([("m/x", 10)], read(412, b""), "Error"),
}


@pytest.mark.parametrize("lie", OBJECTS)
@pytest.mark.parametrize("scheme", STORES)
def test_false_object_store_response_is_refused(fetch: Fetching, scheme: str, lie: str) -> None:
    pytest.importorskip("obstore")
    rows, answer, expected = OBJECTS[lie]
    with store(scheme, rows, answer) as liar:
        message = fetch.refused(liar, STORES[scheme])
        assert any(each in message for each in expected.split("|")), message


@pytest.mark.parametrize("scheme", STORES)
def test_correct_object_store_is_served(fetch: Fetching, scheme: str) -> None:
    pytest.importorskip("obstore")
    names = ["/etc/x", "m/a", "m/A", "m/\u00e9", "m/e\u0301", "m/b/c"]
    with store(scheme, [(name, 10) for name in names], served) as liar:
        folder = fetch(liar, STORES[scheme])
    assert dict.fromkeys(files_of(folder), CONTENT) == files_of(folder)
    assert {f"m/{name}" for name in files_of(folder)} == {"m/etc/x", *names[1:]}


@pytest.mark.parametrize("scheme", STORES)
def test_endless_listing_uses_bounded_memory(fetch: Fetching, scheme: str) -> None:
    """The library reads a page whole, in a process of its own."""
    pytest.importorskip("obstore")
    with store(scheme, [], served, page=endless()) as liar:
        assert "sends more than it may" in fetch.refused(liar, STORES[scheme])
        assert liar.sent < 4 * objects_program.MEMORY


@pytest.mark.parametrize("scheme", STORES)
def test_cyclic_listing_pages_end(fetch: Fetching, scheme: str) -> None:
    pytest.importorskip("obstore")
    rows = [(f"m/{i}", 10) for i in range(5000)]
    with store(scheme, rows, served, token="again") as liar:
        assert "lists objects without end" in fetch.refused(liar, STORES[scheme])


def test_cyclic_empty_pages_end(fetch: Fetching, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    program = tmp_path / "program.py"
    source = Path(objects_program.__file__).read_text()
    program.write_text(source.replace("LISTING_SECONDS = 300", "LISTING_SECONDS = 1"))
    monkeypatch.setattr(objects_program, "__file__", str(program))
    with store("s3", [], served, token="again") as liar:
        assert "lists objects without end" in fetch.refused(liar, STORES["s3"])


# A server


def test_other_models_are_served_despite_false_source(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    zeros = lying.tarred([(member("zeros", 600 * MB), Zeros())])
    with registry([(zeros, layer(zeros, None))]) as bomb, registry([], (200, {}, endless())) as manifest:
        for name, liar in (("bomb", bomb), ("endless", manifest)):
            write_model(
                folder,
                name,
                "inferstream.plugins.frameworks.onnx.OnnxModel",
                code="",
                name=name,
                parameters={"uri": f"oci://{liar.host}/m"},
            )
        cache = tmp_path / "cache"
        server = Running(folder, within=60, INFERSTREAM_SOURCES_DIR=str(cache))
        try:
            server.probe()
            index = eventually(lambda: reasons(server), 60)
            assert isinstance(index, dict)
            assert "holds more than" in index["bomb"] or "members have more than" in index["bomb"]
            assert "more than 4,000,000 bytes" in index["endless"]
            assert "Traceback" not in server.text()
            assert server.rss() < 500 * MB
            assert sum(path.lstat().st_blocks * 512 for path in cache.rglob("*")) < MB
        finally:
            assert server.stop() == 0, server.text()


def reasons(server: Running) -> dict[str, str]:
    """Why models did not load, once both did not."""
    index = httpx.post(f"{server.url}/v2/repository/index", json={}).json()
    found = {each["name"]: each["reason"] for each in index if each.get("reason")}
    return found if {"bomb", "endless"} <= found.keys() else {}
