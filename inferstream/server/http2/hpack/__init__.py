"""Header compression (RFC 7541): a decoder with a dynamic table for each connection, and an encoder without state."""

from .decoder import Decoder, Header
from .encoder import encode
from .errors import HeaderListTooLarge, HpackError, TooManyHeaders

__all__ = ["Decoder", "Header", "HeaderListTooLarge", "HpackError", "TooManyHeaders", "encode"]
