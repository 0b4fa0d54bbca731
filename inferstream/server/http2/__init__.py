"""HTTP/2 (RFC 9113) as an asyncio protocol for streaming servers. It is independent of gRPC.

The package imports nothing from the rest of inferstream. The application passes `Accept` and `TooLarge`
callbacks, which handle requests.

`Http2Connection` guarantees to the application:

- `accept` is called once for every request, with a valid head (RFC 9113, section 8.3). The request's receiver
  then receives every byte of the body in order, followed by either the end of the body or `lost`. `lost` may
  also follow the end of the body.
- A stream sends its bytes in order. Senders wait while the flow-control window of the stream or the
  connection is exhausted, so at most one message per stream is in memory for a client that does not read.
  Waiting streams take turns.
- If a client violates the protocol, its stream or connection is closed with the error code that RFC 9113
  specifies. Nothing else is affected, and `data_received` raises no exception.
- `Http2Limits` bounds the memory and CPU time that a client can consume without effort.

Suggested reading order: `frames` (bytes), `reader` (bytes to frames), `hpack` (header blocks), `request`
(valid heads), `settings`, `limits`, `sending`, `stream` and `receiving` (the two halves of a connection),
`connection`, `abuse` (floods), `port` (sockets, time limits, shutdown).
"""
