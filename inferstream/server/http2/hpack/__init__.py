"""Header compression (RFC 7541): a decoder with a dynamic table per connection, and a stateless encoder."""

from .decoder import Decoder, Header
from .encoder import encode
from .errors import HeaderListTooLarge, HpackError, TooManyHeaders

__all__ = ["Decoder", "Header", "HeaderListTooLarge", "HpackError", "TooManyHeaders", "encode"]
