"""Errors of header blocks."""


class HpackError(Exception):
    """The block is malformed: the connection ends with COMPRESSION_ERROR, because the tables of its ends may differ."""


class HeaderListTooLarge(Exception):
    """The block is valid and its headers exceed the limit: only its stream ends, because the table is right."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the headers have more than {limit} bytes, counting 32 for each")


class TooManyHeaders(Exception):
    """The block has so many headers beyond the limit that the connection ends, and the rest costs nothing."""
