"""Fuzzers of each door: REST, WebSocket and gRPC."""
