"""Connections whose clients closed their sending side but can still receive (RFC 9112, section 9.6).

A client that disconnected and a client that only closed its sending side send the same FIN. Only the kernel
of a disconnected client replies to more data with a reset. So the server sends one byte of the response
early, which is invisible to clients, and watches for a reset.
"""

from .exchange import Connected, Http1Response


class HalfClosable(Connected):
    """A connection that still sends its responses after the client closed its sending side."""

    closing: bool
    is_half_closed = False
    _current: Http1Response | None

    def _advance(self) -> None:
        """Parse as much as the unfinished requests allow."""
        raise NotImplementedError

    @property
    def receiving(self) -> bool:
        """Whether the body of the request is incomplete."""
        raise NotImplementedError

    def eof_received(self) -> bool:
        """Keep the transport open while complete requests await their responses. Called by the transport."""
        return not self.receiving and self.half_close()

    def half_close(self) -> bool:
        """Start watching for a reset.

        Returns False if nothing is left to send, or over TLS, because TLS transports close immediately.
        """
        if self.closing or self.scheme == "https":
            return False
        if not self.is_half_closed:
            self.is_half_closed = True
            self._advance()  # the next request may have arrived
            if self._current is not None:
                self._current.probe()
                self.reading.expect_reset()
        return not self.closing
