"""A parser for server-sent events (WHATWG HTML, "Server-sent events")."""

from collections.abc import Iterator


class EventParser:
    """Parses the events of one stream from chunks of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []
        self.last_id = b""
        """The id of the last event that has one. Only resumable streams have ids."""

    def parse(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the name and data of each event that `chunk` completes. Comments are skipped."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.removesuffix(b"\r").partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif field == b"event":
                self._name = value.removeprefix(b" ").decode(errors="replace")
            elif not field and not value and not line.startswith(b":"):
                if self._data:
                    yield self._name, b"\n".join(self._data)
                self._name, self._data = "", []
            elif field == b"id":
                self.last_id = value.removeprefix(b" ")
