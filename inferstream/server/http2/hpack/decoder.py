"""Decoding of header blocks (RFC 7541), with one connection's dynamic table.

A client that repeats its headers sends the same bytes once they are in the dynamic table. So complete blocks
are cached with their headers until the table changes, and a repeated block costs one look-up. Blocks that
change the table are not cached. The number and the size of cached blocks are bounded.
"""

import re
from typing import TypeAlias

from . import static
from .errors import HeaderListTooLarge, HpackError, TooManyHeaders
from .integers import read_continuation, read_string

Header: TypeAlias = tuple[bytes, bytes]

OVERHEAD = (
    32  # overhead per header in the dynamic table (section 4.1) and in a list (RFC 9113, section 6.5.2)
)
INITIAL_TABLE_SIZE = 4096  # the size of every table until the peer changes it
MAX_KEPT_SIZE = 8192  # size of all cached blocks and headers in bytes
MAX_EXCESS = 16 * 1024  # headers beyond the list limit, not counting runs of references

_Field: TypeAlias = tuple[Header, int]  # a table entry and its size
_STATIC: tuple[_Field, ...] = tuple(
    ((name, value), len(name) + len(value) + OVERHEAD) for name, value in ((b"", b""), *static.TABLE)
)
_REFERENCES = re.compile(rb"[\x81-\xfe]*")  # references of one byte each
_NEWEST = len(_STATIC)  # index of the newest entry of the dynamic table


class Decoder:
    """Decodes the header blocks of one connection, which must be passed in order.

    `max_table_size` is the SETTINGS_HEADER_TABLE_SIZE sent to the peer. After an HpackError, the connection
    must be closed.
    """

    __slots__ = (
        "_capacity",
        "_fields",
        "_kept",
        "_kept_size",
        "_longest",
        "_max_kept",
        "_max_list",
        "_max_table",
        "_size",
    )

    def __init__(
        self, max_table_size: int = 4096, max_list_size: int = 16384, cached_blocks: int = 16
    ) -> None:
        self._max_table = max_table_size
        self._max_list = max_list_size
        self._longest = max(max_list_size, max_table_size)
        self._max_kept = cached_blocks
        self._capacity = INITIAL_TABLE_SIZE
        self._fields = list(_STATIC)  # both tables, by index
        self._size = 0
        self._kept: dict[bytes, tuple[Header, ...]] = {}
        self._kept_size = 0

    def decode(self, block: bytes) -> tuple[Header, ...]:
        """Decode a complete block.

        Raises HpackError if the block is malformed, HeaderListTooLarge if it is valid but exceeds the limit,
        or TooManyHeaders if it exceeds the limit by far. A string that is too long for both limits stays
        Huffman-encoded, because it is discarded.
        """
        headers = self._kept.get(block)
        return self._decode(block) if headers is None else headers

    def _decode(self, block: bytes) -> tuple[Header, ...]:
        fields, limit = self._fields, self._max_list
        headers: list[Header] = []
        size = excess = 0
        position = self._resize(block)
        changed = position > 0
        end = len(block)
        while position < end:
            first = block[position]
            position += 1
            if first >= 0x80:
                index = first & 0x7F
                if index == 0x7F:
                    index, position = read_continuation(block, position, 0x7F)
                if not 0 < index < len(fields):
                    raise _no_entry(index, fields)
                field = fields[index]
            else:
                header, position = self._decode_literal(block, position, first)
                field = header, len(header[0]) + len(header[1]) + OVERHEAD
                if first >= 0x40:
                    self._insert(field)
                    changed = True
            size += field[1]
            if size <= limit:
                headers.append(field[0])
            else:  # a one-byte reference can stand for 4,000 bytes, so skip runs of them
                position = self._skip(block, position)
                excess += 1
                if excess > MAX_EXCESS:
                    raise TooManyHeaders
        if size > limit:
            raise HeaderListTooLarge(limit)
        decoded = tuple(headers)
        if not changed:
            self._keep(block, decoded, size + end)
        return decoded

    def _skip(self, block: bytes, position: int) -> int:
        """Validate a run of references, and return the position after it."""
        match = _REFERENCES.match(block, position)
        assert match is not None
        if run := match.group():
            highest = max(run) & 0x7F
            if highest >= len(self._fields):
                raise _no_entry(highest, self._fields)
        return match.end()

    def _decode_literal(self, block: bytes, position: int, first: int) -> tuple[Header, int]:
        """Decode a literal header, and return it with the position after it."""
        if first >= 0x40:
            mask = 0x3F
        elif first < 0x20:
            mask = 0x0F  # also for a header that must never be indexed
        else:
            raise HpackError("the size of the dynamic table changes after the first header")
        index = first & mask
        if index == mask:
            index, position = read_continuation(block, position, mask)
        if index == 0:
            name, position = read_string(block, position, self._longest)
        elif index < len(self._fields):
            name = self._fields[index][0][0]
        else:
            raise _no_entry(index, self._fields)
        value, position = read_string(block, position, self._longest)
        return (name, value), position

    def _insert(self, field: _Field) -> None:
        self._fields.insert(_NEWEST, field)
        self._size += field[1]
        self._evict()

    def _resize(self, block: bytes) -> int:
        """Apply the table size updates at the start of a block, and return the position after them."""
        position = 0
        while position < len(block) and block[position] & 0xE0 == 0x20:
            capacity = block[position] & 0x1F
            position += 1
            if capacity == 0x1F:
                capacity, position = read_continuation(block, position, 0x1F)
            if capacity > self._max_table:
                raise HpackError(f"a dynamic table of {capacity} bytes is larger than {self._max_table}")
            self._capacity = capacity
            self._evict()
        return position

    def _evict(self) -> None:
        """Evict the oldest entries until the rest fits.

        An entry larger than the table empties it (section 4.4).
        """
        while self._size > self._capacity:
            self._size -= self._fields.pop()[1]
        self._kept.clear()
        self._kept_size = 0

    def _keep(self, block: bytes, headers: tuple[Header, ...], size: int) -> None:
        if size > MAX_KEPT_SIZE or not self._max_kept:
            return
        if len(self._kept) >= self._max_kept or self._kept_size + size > MAX_KEPT_SIZE:
            self._kept.clear()
            self._kept_size = 0
        self._kept[block] = headers
        self._kept_size += size


def _no_entry(index: int, fields: list[_Field]) -> HpackError:
    return HpackError(f"index {index} names no header: the tables have {len(fields) - 1}")
