"""The static table is that of the library that others use."""

import pytest

from inferstream.server.http2.hpack.static import SIZE, TABLE


def test_static_table_matches_the_rfc() -> None:
    table = pytest.importorskip("hpack.table")
    theirs = tuple((bytes(name), bytes(value)) for name, value in table.HeaderTable.STATIC_TABLE)
    assert theirs == TABLE
    assert SIZE == 61
