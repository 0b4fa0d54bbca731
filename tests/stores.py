"""Places that models come from: an object store, a registry of containers, and a web server with ranges."""

import hashlib
import io
import json
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.serving import eventually

MOTO = Path(__file__).parents[1] / ".venv" / "moto"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s3cr3t", "AWS_REGION": "us-east-1"}


class Web:
    """Serves `files` by path, in parts where they are asked for. `cut` closes a response after as many bytes, once."""

    def __init__(self, tls: dict[str, str] | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.asked: list[tuple[str, str | None, str | None]] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                web.asked.append((path, self.headers["range"], self.headers["authorization"]))
                content = web.files.get(path)
                if content is None:
                    self.send_error(404)
                    return
                start = int((self.headers["range"] or "bytes=0-").removeprefix("bytes=").rstrip("-"))
                self.send_response(206 if start else 200)
                self.send_header("etag", f'"{hashlib.sha256(content).hexdigest()}"')
                self.send_header("content-length", str(len(content) - start))
                self.end_headers()
                if web.cut is not None and web.cut < len(content):
                    self.wfile.write(content[start : start + web.cut])
                    web.cut = None
                    self.close_connection = True
                    return
                self.wfile.write(content[start:])

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls["ssl_certfile"], tls["ssl_keyfile"])
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def publish(self, model: str, revision: str, files: dict[str, bytes]) -> None:
        """Answer as the hub does for one revision of a model, the largest file in its large file storage."""
        sha = hashlib.sha1(json.dumps([revision, *map(repr, files.items())]).encode()).hexdigest()
        siblings = []
        for name, content in files.items():
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            entry: dict = {"rfilename": name, "size": len(content), "blobId": blob}
            if content == max(files.values(), key=len):
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 100}
            siblings.append(entry)
            self.files[f"/{model}/resolve/{sha}/{name}"] = content
        info = json.dumps({"id": model, "sha": sha, "siblings": siblings, "private": False, "tags": []})
        self.files[f"/api/models/{model}/revision/{revision}"] = info.encode()


def packed(files: dict[str, bytes]) -> bytes:
    """A tar archive, compressed."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@contextmanager
def moto() -> Iterator[str]:
    """The URL of moto's server of S3, with the bucket `bucket`."""
    if not (MOTO / "moto").is_dir():
        pytest.skip("moto is not installed: `make test` installs it")
    command = [sys.executable, "-m", "moto.server", "-p", "0"]
    with _ended(command, PYTHONPATH=str(MOTO)) as output:
        line = str(
            eventually(
                lambda: [line for line in output.read_text().splitlines() if "Running on http" in line], 60
            )
        )
        url = f"http://127.0.0.1:{line.rpartition(':')[2].strip(chr(39) + '])')}"
        assert httpx.put(f"{url}/bucket").status_code == 200
        yield url


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Host and port of Debian's docker-registry."""
    if (program := shutil.which("docker-registry")) is None:
        pytest.skip("docker-registry is not installed")
    folder.mkdir()
    settings = folder / "config.yml"
    storage = f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}"
    settings.write_text(f'version: 0.1\n{storage}\nhttp: {{addr: "127.0.0.1:0"}}\nlog: {{level: info}}\n')
    with _ended([program, "serve", str(settings)], folder=folder) as output:
        text = str(eventually(lambda: "listening on" in output.read_text() and output.read_text(), 60))
        yield text.rpartition("listening on ")[2].split('"')[0].strip()


def push(host: str, name: str, tag: str, layers: list[tuple[bytes, dict[str, str], str]]) -> None:
    """Push layers, each with its annotations and media type."""
    url = f"http://{host}/v2/{name}"
    described = [_upload(url, content, kind) | {"annotations": notes} for content, notes, kind in layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _upload(url, b"{}", "application/vnd.oci.empty.v1+json"),
        "layers": described,
    }
    pushed = httpx.put(
        f"{url}/manifests/{tag}",
        content=json.dumps(manifest),
        headers={"content-type": manifest["mediaType"]},
    )
    assert pushed.status_code == 201, pushed.text


def _upload(url: str, content: bytes, kind: str) -> dict:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    place = httpx.URL(httpx.post(f"{url}/blobs/uploads/").headers["location"])
    assert httpx.put(place.copy_add_param("digest", digest), content=content).status_code == 201
    return {"mediaType": kind, "digest": digest, "size": len(content)}


@contextmanager
def _ended(command: list[str], folder: Path | None = None, **environment: str) -> Iterator[Path]:
    """Run a server; the file of its output."""
    import tempfile

    output = Path(tempfile.mkdtemp()) / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env={**os.environ, **environment}
        )
    try:
        yield output
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(output.parent)
