"""Incremental JSON encoding of the items of a call."""

from inferstream.ext.http import GatherLimit


class JoinedItems:
    """The JSON of a call's items.

    The items are joined as they arrive, because each bytes object from orjson occupies over 1 KB.

    If all items are strings, `text` is their concatenation as one JSON string.
    """

    __slots__ = ("_limit", "_text", "count", "joined", "last")

    def __init__(self, limit: GatherLimit, joins_text: bool = False) -> None:
        self._limit = limit
        self._text = bytearray() if joins_text else None
        self.count = 0
        self.joined = bytearray()
        """The items, separated by commas."""
        self.last = b""

    def add(self, item: bytes) -> None:
        """Append an item. Raises PayloadTooLarge."""
        self._limit.take(len(item) + 1)
        if self.count:
            self.joined += b","
        self.count += 1
        self.joined += item
        self.last = item
        if self._text is not None:
            if item.startswith(b'"'):
                self._text += memoryview(item)[1:-1]
            else:
                self._text = None

    @property
    def text(self) -> bytes | None:
        return None if self._text is None else b"".join((b'"', self._text, b'"'))

    def list_document(self) -> bytes:
        """Return the items as a JSON list."""
        return b"".join((b"[", self.joined, b"]"))
