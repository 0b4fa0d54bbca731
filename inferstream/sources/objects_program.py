"""A program that reads from an object store: a list of objects, or the content of one.

The library keeps lists and errors of a store in memory, however large they are. Here it has a limit of it.
"""

import json
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any

MEMORY = 2**29
MOST_OBJECTS = 50_000
LISTING_SECONDS = 300
PIECE = 8 * 2**20
"""Bytes of one request, which has to end within the time limit of obstore's clients, 30 s."""


def listed(obstore: Any, store: Any, path: str) -> Iterator[bytes]:
    """JSON of the objects below a path, or of the one object at it."""
    signal.alarm(LISTING_SECONDS)  # a store may repeat empty pages
    objects: list[Any] = []
    for some in obstore.list(store, path or None):
        objects += some
        if len(objects) > MOST_OBJECTS:
            raise OverflowError
    every = objects or [obstore.head(store, path)]
    rows = [(each["path"], each["size"], each["e_tag"], each["last_modified"].isoformat()) for each in every]
    yield json.dumps([bool(objects), rows]).encode()


def content(obstore: Any, store: Any, path: str, start: int, end: int, etag: str | None) -> Iterator[bytes]:
    """An object from `start` to `end`."""
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
    """Write what is asked for. The arguments are a folder of packages, a URL, options, and a list of arguments."""
    sys.path.append(sys.argv[1])
    import obstore
    from obstore.store import from_url

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    connect: Any = from_url
    question = json.loads(sys.argv[4])
    try:
        store = connect(sys.argv[2], **json.loads(sys.argv[3]))
        for piece in (content if len(question) > 1 else listed)(obstore, store, *question):
            sys.stdout.buffer.write(piece)
    except Exception as error:  # whose message may hold credentials
        sys.exit(type(error).__name__)


if __name__ == "__main__":
    main()
