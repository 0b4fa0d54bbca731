"""gzip and deflate of whole bodies and messages, with a limit against small data that becomes large."""

import zlib

from ..errors import InvalidRequest, PayloadTooLarge

GZIP = b"gzip"
DEFLATE = b"deflate"


def too_large(subject: str, limit: int, setting: str, when: str = "") -> PayloadTooLarge:
    """The error for a `subject` of more than `limit` bytes, which names the setting that limits it, if one does."""
    named = f" (setting {setting})" if setting else ""
    return PayloadTooLarge(f"The {subject} is larger than the {limit} bytes allowed{when}{named}.")


def inflate(data: bytes, encoding: bytes, limit: int, subject: str, setting: str) -> bytes:
    """`data` without one layer of gzip or deflate, of at most `limit` bytes.

    Errors call the data `subject`, and name the setting that limits it. Raises PayloadTooLarge, InvalidRequest.
    """
    if encoding == GZIP:
        window = 31
    else:
        # The name is that of RFC 1951, the meaning that of RFC 1950; clients send both.
        window = zlib.MAX_WBITS if data[:1] and data[0] & 0x0F == 8 else -zlib.MAX_WBITS
    inflater = zlib.decompressobj(window)
    try:
        plain = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise InvalidRequest(f"The {subject} is not valid {encoding.decode()}: {error}.") from None
    if len(plain) > limit:
        raise too_large(subject, limit, setting, " once decompressed")
    if not inflater.eof:
        raise InvalidRequest(f"The {subject} is truncated {encoding.decode()}.")
    if inflater.unused_data:
        raise InvalidRequest(f"{len(inflater.unused_data)} bytes follow the {encoding.decode()} {subject}.")
    return plain


def deflate(data: bytes, encoding: bytes) -> bytes:
    """`data` in gzip or deflate (zlib) form."""
    deflater = zlib.compressobj(1, wbits=31 if encoding == GZIP else zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()
