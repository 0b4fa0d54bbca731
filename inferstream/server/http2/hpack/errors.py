"""Errors of header block decoding."""


class HpackError(Exception):
    """The block is malformed.

    The connection is closed with COMPRESSION_ERROR, because the tables of the peers may differ.
    """


class HeaderListTooLarge(Exception):
    """The block is valid, but its headers exceed the limit.

    Only the stream is closed, because the dynamic table is still correct.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"the headers have more than {limit} bytes, counting 32 for each")


class TooManyHeaders(Exception):
    """The block exceeds the limit by too many headers.

    The connection is closed without decoding the rest.
    """
