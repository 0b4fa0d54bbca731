"""A server that answers as a test says, of a web site, a registry, the hub, and of object stores."""

import hashlib
import io
import json
import ssl
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Body = bytes | Iterator[bytes]
Answer = tuple[int, Mapping[str, str], Body]

ENDLESS = b" " * 2**16


def endless(piece: bytes = ENDLESS) -> Iterator[bytes]:
    return repeat(piece)


class Liar:
    """Answers GET and HEAD by `answer(path, query, headers)`. `sent` are the bytes of all bodies."""

    def __init__(
        self, answer: Callable[[str, dict[str, list[str]], Any], Answer], tls: dict[str, str] | None = None
    ) -> None:
        liar = self
        self.sent = 0
        self.asked: list[str] = []
        self.stopped = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                liar.asked.append(self.path)
                parts = urlsplit(self.path)
                status, headers, body = answer(unquote(parts.path), parse_qs(parts.query), self.headers)
                self.send_response(status)
                whole = isinstance(body, bytes)
                if whole and not {"content-length", "transfer-encoding"} & {each.lower() for each in headers}:
                    self.send_header("content-length", str(len(body)))
                if not whole:
                    self.send_header("connection", "close")
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.close_connection = True
                if self.command == "HEAD":
                    return
                for piece in [body] if whole else body:
                    if liar.stopped.is_set():
                        return
                    try:
                        self.wfile.write(piece)
                    except OSError:
                        return
                    liar.sent += len(piece)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http{'s' if tls else ''}://{self.host}"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls["ssl_certfile"], tls["ssl_keyfile"])
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def environment(self) -> dict[str, str]:
        """The variables that make each source ask here."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "s3cr3t",
            "AWS_REGION": "us-east-1",
            "GOOGLE_BASE_URL": self.url,
            "GOOGLE_SKIP_SIGNATURE": "true",
            "GOOGLE_ALLOW_HTTP": "true",
            "AZURE_ENDPOINT": self.url,
            "AZURE_SKIP_SIGNATURE": "true",
            "AZURE_ALLOW_HTTP": "true",
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": "hf_s3cr3t",
        }


def part(content: bytes, headers: Any, **more: str) -> Answer:
    """A file as an honest server sends it, whole or from where it is asked for."""
    asked = headers["range"]
    if not asked:
        return 200, more, content
    first, _, last = asked.removeprefix("bytes=").partition("-")
    start, end = int(first), min(int(last or len(content) - 1), len(content) - 1) + 1
    return 206, {"content-range": f"bytes {start}-{end - 1}/{len(content)}", **more}, content[start:end]


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layer(content: bytes, title: str | None, **more: Any) -> dict[str, Any]:
    notes = {} if title is None else {"org.opencontainers.image.title": title}
    return {"digest": digest(content), "size": len(content), "annotations": notes, **more}


def registry(layers: list[tuple[bytes, dict[str, Any]]], manifest: Answer | None = None) -> Liar:
    """A registry of one image. Its layers are what their descriptions say, or not."""
    document = json.dumps({"layers": [each for _, each in layers]}).encode()
    blobs = {each["digest"]: content for content, each in layers}

    def answer(path: str, _: Any, headers: Any) -> Answer:
        if "/manifests/" in path:
            return manifest or (200, {}, document)
        content = blobs[path.rpartition("/")[2]]
        return part(content, headers) if isinstance(content, bytes) else (200, {}, content)

    return Liar(answer)


def listing(scheme: str, rows: list[tuple[str, Any]], token: str = "") -> bytes:
    """A page of a list of objects."""
    date, items = "2026-01-01T00:00:00.000Z", ""
    for name, size in rows:
        name = escape(name)
        if scheme == "az":
            fields = f"<Content-Length>{size}</Content-Length><Content-Type>a/b</Content-Type><Etag>e</Etag><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>"
            items += f"<Blob><Name>{name}</Name><Properties>{fields}</Properties></Blob>"
        else:
            items += f'<Contents><Key>{name}</Key><LastModified>{date}</LastModified><ETag>"e"</ETag><Size>{size}</Size></Contents>'
    if scheme == "az":
        return f"<?xml version='1.0'?><EnumerationResults><Blobs>{items}</Blobs><NextMarker>{token}</NextMarker></EnumerationResults>".encode()
    more = (
        f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        if token
        else ""
    )
    return f"<?xml version='1.0'?><ListBucketResult>{items}{more}</ListBucketResult>".encode()


def store(
    scheme: str,
    rows: list[tuple[str, Any]],
    read: Callable[[str, Any], Answer],
    page: Body | None = None,
    token: str = "",
) -> Liar:
    """An object store with these objects in its list, whatever it has."""

    def answer(path: str, query: Any, headers: Any) -> Answer:
        if "list-type" in query or "comp" in query:
            return 200, {"content-type": "application/xml"}, page or listing(scheme, rows, token)
        return read(path, headers)

    return Liar(answer)


def tarred(members: list[tuple[tarfile.TarInfo, Any]], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for member, content in members:
            if isinstance(content, bytes):
                member.size, content = len(content), io.BytesIO(content)
            archive.addfile(member, content)
    return buffer.getvalue()
