"""Object stores by obstore: `s3://bucket/path`, `gs://bucket/path`, `az://account/container/path`.

Endpoints and credentials are those of obstore's environment: `AWS_ENDPOINT_URL`, `GOOGLE_APPLICATION_CREDENTIALS`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import MissingExtra
from ..repository.remote import RemoteFile, RemoteSource
from .http import ARCHIVE

PIECE = 8 * 2**20
"""Bytes of one request, which has to end within the time limit of obstore's clients, 30 s."""


class Objects(RemoteSource):
    """The objects below a path, or the one object at it."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        scheme, _, rest = uri.partition("://")
        try:
            import obstore
            from obstore.store import from_url
        except ModuleNotFoundError as missing:
            raise MissingExtra(f"{scheme}://", "objects", missing) from None
        self._obstore = obstore
        parts = rest.rstrip("/").split("/")
        root = 2 if scheme == "az" else 1  # an account has containers
        connect: Any = from_url
        self._store = connect(f"{scheme}://{'/'.join(parts[:root])}")
        self._path = "/".join(parts[root:])
        self._objects: dict[str, Any] = {}

    def files(self) -> Sequence[RemoteFile]:
        below = [each for some in self._obstore.list(self._store, self._path or None) for each in some]
        objects: list[Any] = below or [self._obstore.head(self._store, self._path)]
        folder = f"{self._path}/" if below and self._path else self._path[: self._path.rfind("/") + 1]
        self._objects = {each["path"].removeprefix(folder): each for each in objects}
        archive = not below and ARCHIVE.search(self._path) is not None
        return [
            RemoteFile(path, each["size"], each["e_tag"] or each["last_modified"].isoformat(), unpack=archive)
            for path, each in self._objects.items()
        ]

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        this = self._objects[file.path]
        for start in range(offset, this["size"], PIECE):
            wanted: Any = {"range": (start, min(start + PIECE, this["size"])), "if_match": this["e_tag"]}
            yield bytes(self._obstore.get(self._store, this["path"], options=wanted).bytes())
