"""Requests of REST over HTTP/2: a stream of a connection carries each, beside the calls of gRPC."""
