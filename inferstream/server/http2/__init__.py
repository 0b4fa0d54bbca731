"""HTTP/2 (RFC 9113) as an asyncio protocol, for a server that streams. It knows nothing of gRPC.

It imports nothing of the package around it, which gives it `Accept` and `TooLarge` to take requests.

What an `Http2Connection` promises to the application above it:

- Each request reaches `accept` once, with a valid head (RFC 9113 section 8.3). Its receiver then gets every byte of
  the body in order, and exactly one of two ends: the end of the body, or `lost`. `lost` may also follow the end.
- A stream sends its bytes in order. A sender waits while the windows of the client or its connection are full, so
  that a client that does not read costs one message per stream. Streams that wait take turns.
- A client that breaks the protocol ends its stream or its connection with the error code that RFC 9113 names. It
  ends nothing else, and no exception leaves `data_received`.
- What a client can make the server keep or compute without work of its own is bounded by `Http2Limits`.

Reading order: `frames` (bytes), `reader` (from bytes to frames), `hpack` (header blocks), `request` (a valid head),
`settings`, `limits`, `sending`, `stream` and `receiving` (the two halves of a connection), `connection`, `abuse`
(frames without use), `port` (sockets, time limits, the end).
"""
