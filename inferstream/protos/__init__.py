"""Wire formats of the protocol: JSON, gRPC messages, Triton-style flat JSON, and server-sent events."""
