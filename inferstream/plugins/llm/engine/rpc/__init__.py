"""A gRPC client for engines: calls with one request and a stream of responses."""
