"""gzip and deflate of complete bodies and messages, with a size limit against decompression bombs."""

import zlib

from ..errors import InvalidRequest, PayloadTooLarge

GZIP = b"gzip"
DEFLATE = b"deflate"


def build_size_error(subject: str, limit: int, setting: str, when: str = "") -> PayloadTooLarge:
    """Return the error for a `subject` larger than `limit` bytes. It names `setting` unless that is empty."""
    named = f" (setting {setting})" if setting else ""
    return PayloadTooLarge(f"The {subject} is larger than the {limit} bytes allowed{when}{named}.")


def inflate(data: bytes, encoding: bytes, limit: int, subject: str, setting: str) -> bytes:
    """Decompress one layer of gzip or deflate, up to `limit` bytes.

    Error messages call the data `subject` and name `setting`, which sets the limit. Raises PayloadTooLarge if
    the result is larger, or InvalidRequest if the data is malformed or truncated, or has trailing bytes.
    """
    if encoding == GZIP:
        window = 31
    else:
        # "deflate" means zlib (RFC 1950), but some clients send raw deflate (RFC 1951).
        window = zlib.MAX_WBITS if data[:1] and data[0] & 0x0F == 8 else -zlib.MAX_WBITS
    inflater = zlib.decompressobj(window)
    try:
        plain = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise InvalidRequest(f"The {subject} is not valid {encoding.decode()}: {error}.") from None
    if len(plain) > limit:
        raise build_size_error(subject, limit, setting, " once decompressed")
    if not inflater.eof:
        raise InvalidRequest(f"The {subject} is truncated {encoding.decode()}.")
    if inflater.unused_data:
        raise InvalidRequest(f"{len(inflater.unused_data)} bytes follow the {encoding.decode()} {subject}.")
    return plain


def deflate(data: bytes, encoding: bytes) -> bytes:
    """Compress `data` as gzip or deflate (zlib)."""
    deflater = zlib.compressobj(1, wbits=31 if encoding == GZIP else zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()
