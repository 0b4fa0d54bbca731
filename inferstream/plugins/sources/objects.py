"""Object stores through obstore: `s3://bucket/path`, `gs://bucket/path`, `az://account/container/path`.

Endpoints and credentials are read from the environment, for example from `AWS_ENDPOINT_URL` and
`GOOGLE_APPLICATION_CREDENTIALS`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from inferstream.errors import MissingExtra
from inferstream.ext.sources import FetchFailed, RemoteFile, RemoteSource, hide_credentials

from . import objects_program
from .http import ARCHIVE


class Objects(RemoteSource):
    """The objects below a path, or the object at that path. A subprocess with limited memory reads them."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        scheme, _, rest = uri.partition("://")
        try:
            import obstore
        except ModuleNotFoundError as missing:
            raise MissingExtra(f"{scheme}://", "objects", missing) from None
        parts = rest.rstrip("/").split("/")
        options = {"account_name": parts.pop(0)} if scheme == "az" else {}
        program, packages = objects_program.__file__, str(Path(obstore.__file__).parents[1])
        url = f"{scheme}://{parts.pop(0) if parts else ''}"
        self._command = [sys.executable, "-I", program, packages, url, json.dumps(options)]
        self._path = "/".join(parts)
        self._objects: dict[str, Any] = {}

    def files(self) -> Sequence[RemoteFile]:
        below, rows = json.loads(b"".join(self._run(self._path)))
        folder = f"{self._path}/" if below and self._path else self._path[: self._path.rfind("/") + 1]
        archive = not below and ARCHIVE.search(self._path) is not None
        self._objects = {path.removeprefix(folder): (path, size, etag) for path, size, etag, _ in rows}
        return [
            RemoteFile(path.removeprefix(folder), size, etag or modified, unpack=archive)
            for path, size, etag, modified in rows
        ]

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        path, size, etag = self._objects[file.path]
        return self._run(path, offset, size, etag)

    def _run(self, *question: Any) -> Iterator[bytes]:
        """Yield the output of the subprocess.

        Raises FetchFailed if it exceeds its limits, or an error with the class name of the library's error.
        """
        with subprocess.Popen(
            [*self._command, json.dumps(question)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TOKIO_WORKER_THREADS": "1"},
        ) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            try:
                while piece := running.stdout.read(2**20):
                    yield piece
                status, name = running.wait(), running.stderr.read(100).decode(errors="replace").strip()
            finally:
                running.kill()
        if status < 0 or name == "OverflowError":
            raise FetchFailed(
                f"{hide_credentials(self.uri)} sends more than it may, or lists objects without end"
            )
        if status:
            raise type(name if name.isidentifier() else "Exception", (Exception,), {})
