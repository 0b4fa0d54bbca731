"""A program that lists an object store or reads an object, with limited memory.

The library holds listings and errors of a store in memory, regardless of their size, so it must not run in
the server.
"""

import json
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any

MEMORY = 2**29
MAX_OBJECTS = 50_000
LISTING_SECONDS = 300
PIECE = 8 * 2**20
"""Bytes per request, which must finish within the 30 s timeout of obstore clients."""


def list_objects(obstore: Any, store: Any, path: str) -> Iterator[bytes]:
    """Yield a JSON list of the objects below a path, or of the object at that path."""
    signal.alarm(LISTING_SECONDS)  # A store may return empty pages forever.
    objects: list[Any] = []
    for some in obstore.list(store, path or None):
        objects += some
        if len(objects) > MAX_OBJECTS:
            raise OverflowError
    every = objects or [obstore.head(store, path)]
    rows = [(each["path"], each["size"], each["e_tag"], each["last_modified"].isoformat()) for each in every]
    yield json.dumps([bool(objects), rows]).encode()


def read_object(
    obstore: Any, store: Any, path: str, start: int, end: int, etag: str | None
) -> Iterator[bytes]:
    """Yield an object from `start` to `end`."""
    while start < end:
        part = start, min(start + PIECE, end)
        for piece in obstore.get(store, path, options={"range": part, "if_match": etag}).stream():
            start += len(piece)
            if start > part[1]:
                raise OverflowError
            yield bytes(piece)
        if start < part[1]:
            raise EOFError


def main() -> None:
    """Run a command. The arguments are the package folder, a URL, JSON options and a JSON argument list."""
    sys.path.append(sys.argv[1])
    import obstore
    from obstore.store import from_url

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    connect: Any = from_url
    question = json.loads(sys.argv[4])
    try:
        store = connect(sys.argv[2], **json.loads(sys.argv[3]))
        for piece in (read_object if len(question) > 1 else list_objects)(obstore, store, *question):
            sys.stdout.buffer.write(piece)
    except Exception as error:  # The message may contain credentials.
        sys.exit(type(error).__name__)


if __name__ == "__main__":
    main()
