"""Reads server-sent events (WHATWG HTML, "Server-sent events")."""

from collections.abc import Iterator


class EventParser:
    """Reads the events of one stream from its pieces, however they are cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []
        self.last_id = b""
        """The id of the last event that has one. Only a stream that may be resumed has ids."""

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """The name and the data of each event that `chunk` completes. Comments are no events."""
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
