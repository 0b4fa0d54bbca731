"""Decoding of strings in the Huffman code of HPACK (RFC 7541, appendix B), one byte at a time.

The decoder is a state machine whose states are the inner nodes of the code tree. A state is a row of 256
transitions, one per byte: the symbols that are completed within the byte, and the next row. Rows are filled
on first use. All 256 rows would take about 5 MB and a third of a second, but common headers need only a few.
"""

from __future__ import annotations

from .errors import HpackError

Row = list[tuple[bytes, "Row"]]

# The code is canonical (codes of equal length are consecutive, in symbol order), so the lengths define it.
_LENGTHS = """
13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 6 10
10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6 7 7 7 7 7 7 7 7 7 7 7 7 7
7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6 15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11
14 13 28 20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23
23 24 22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22
23 26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27
20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 30
"""
_END = 256  # the EOS symbol, which must not occur in a string


def decode(data: bytes) -> bytes:
    """Decode `data`. The result is at most 8/5 times as long. Raises HpackError."""
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


def _build_tree() -> list[list[int]]:
    """Build the code tree: for each inner node, its successors for 0 and 1 (a node number or `~symbol`)."""
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
    """Fill a row in one assignment, so that other threads see either none or all of its transitions."""
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


def _final_states() -> frozenset[int]:
    """Return the valid final states: after a symbol, or after up to seven padding bits that are all 1."""
    node, ends = 0, set()
    for _ in range(8):
        ends.add(id(_ROWS[node]))
        node = _NODES[node][1]
    return frozenset(ends)


_NODES = _build_tree()
_ROWS: list[Row] = [[] for _ in _NODES]
_FAILED: Row = []
_FAILED.extend([(b"", _FAILED)] * 256)
_ENDS = _final_states()
