"""The protocol on the wire: JSON, gRPC messages, Triton's flat JSON, events."""
