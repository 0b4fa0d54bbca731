"""Integers and strings of header blocks (RFC 7541, section 5)."""

from . import huffman
from .errors import HpackError

# 2 ** 35 exceeds any valid length or index. Without a limit, zero bytes could continue an integer endlessly.
_SHIFTS = (0, 7, 14, 21, 28)


def read_continuation(block: bytes, position: int, prefix: int) -> tuple[int, int]:
    """Decode an integer whose prefix bits are all 1, and return it with the position after it."""
    value = prefix
    for shift in _SHIFTS:
        if position >= len(block):
            raise HpackError("the block ends in an integer")
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise HpackError(f"an integer continues for more than {len(_SHIFTS)} bytes")


def read_string(block: bytes, position: int, longest: int) -> tuple[bytes, int]:
    """Decode a string, and return it with the position after it.

    A string longer than `longest` may stay Huffman-encoded. Raises HpackError.
    """
    if position >= len(block):
        raise HpackError("the block ends before a string")
    first = block[position]
    position += 1
    length = first & 0x7F
    if length == 0x7F:
        length, position = read_continuation(block, position, 0x7F)
    end = position + length
    if end > len(block):
        raise HpackError(f"a string has {length} bytes and the block only {len(block) - position} more")
    if first >= 0x80 and length <= 4 * longest:  # a symbol has at most 30 bits
        return huffman.decode(block[position:end]), end
    return block[position:end], end


def encode_integer(value: int, bits: int, flags: int) -> bytes:
    """Encode an integer with a prefix of `bits` bits. `flags` are the other bits of the first byte."""
    full = (1 << bits) - 1
    if value < full:
        return bytes((flags | value,))
    written = bytearray((flags | full,))
    value -= full
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
