"""Strings in HPACK's Huffman code (RFC 7541, appendix B), decoded a byte at a time.

The decoder is a machine whose states are the inner nodes of the code's tree. A state is a row of 256 transitions, one
for each byte: the symbols that end within this byte, and the next row. A row is filled when a string first leaves it.
All 256 rows would cost some 5 MB and a third of a second, and the usual headers need few.
"""

from __future__ import annotations

from .errors import HpackError

Row = list[tuple[bytes, "Row"]]

# The code is canonical: the codes of one length follow each other in the order of their symbols. The lengths say all.
_LENGTHS = """
13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 6 10
10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6 7 7 7 7 7 7 7 7 7 7 7 7 7
7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6 15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11
14 13 28 20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23
23 24 22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22
23 26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27
20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 30
"""
_END = 256  # the symbol that no string may contain


def decode(data: bytes) -> bytes:
    """The text of the data, at most 8/5 as long."""
    while True:
        row = _ROWS[0]
        texts = []
        try:
            for byte in data:
                text, row = row[byte]
                texts.append(text)
        except IndexError:
            _fill(row)
            continue
        if id(row) not in _ENDS:
            raise HpackError("a string in the Huffman code holds the symbol EOS or ends in wrong padding")
        return b"".join(texts)


def _tree() -> list[list[int]]:
    """The inner nodes, each with what follows a 0 and a 1: the number of a node, or a symbol as `~symbol`."""
    lengths = [int(length) for length in _LENGTHS.split()]
    nodes = [[0, 0]]
    code = before = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths)):
        code <<= length - before
        before = length
        node = 0
        for bit in range(length - 1, 0, -1):
            branch = code >> bit & 1
            if not nodes[node][branch]:
                nodes[node][branch] = len(nodes)
                nodes.append([0, 0])
            node = nodes[node][branch]
        nodes[node][code & 1] = ~symbol
        code += 1
    return nodes


def _fill(row: Row) -> None:
    """Write the transitions of a row at once, so that a thread which reads it sees none or all."""
    start = next(number for number, each in enumerate(_ROWS) if each is row)
    row[:] = [_transition(start, byte) for byte in range(256)]


def _transition(node: int, byte: int) -> tuple[bytes, Row]:
    symbols = bytearray()
    for bit in range(7, -1, -1):
        node = _NODES[node][byte >> bit & 1]
        if node == ~_END:
            return b"", _FAILED
        if node < 0:
            symbols.append(~node)
            node = 0
    return bytes(symbols), _ROWS[node]


def _padded() -> frozenset[int]:
    """The states in which a string may end: after a symbol, and after at most seven bits of padding, all 1."""
    node, ends = 0, set()
    for _ in range(8):
        ends.add(id(_ROWS[node]))
        node = _NODES[node][1]
    return frozenset(ends)


_NODES = _tree()
_ROWS: list[Row] = [[] for _ in _NODES]
_FAILED: Row = []
_FAILED.extend([(b"", _FAILED)] * 256)
_ENDS = _padded()
