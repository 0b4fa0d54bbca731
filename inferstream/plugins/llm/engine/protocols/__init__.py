"""The gRPC protocols of engines."""
