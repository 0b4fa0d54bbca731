"""Connections whose clients send no more but may still receive (RFC 9112 section 9.6).

A client that has left and one that has only closed its sending side send the same FIN. The kernel of the first one
responds to more data with a reset. So the server sends a byte of the response ahead, which no client can notice, and
looks for a reset.
"""

from .exchange import Connected, Http1Response


class HalfClosable(Connected):
    """A connection that sends its responses after its client has closed the sending side."""

    closing: bool
    is_half_closed = False
    _current: Http1Response | None

    def _advance(self) -> None:
        """Read as far as the requests before this one allow."""
        raise NotImplementedError

    @property
    def receiving(self) -> bool:
        """Whether the body of the request is not whole."""
        raise NotImplementedError

    def eof_received(self) -> bool:
        """Called by the transport. Keep it open for the responses to requests that are whole."""
        return not self.receiving and self.half_close()

    def half_close(self) -> bool:
        """Look for a reset from now on. False if nothing is to be sent, or over TLS, whose transports close at once."""
        if self.closing or self.scheme == "https":
            return False
        if not self.is_half_closed:
            self.is_half_closed = True
            self._advance()  # the next request may be there
            if self._current is not None:
                self._current.probe()
                self.reading.expect_reset()
        return not self.closing
