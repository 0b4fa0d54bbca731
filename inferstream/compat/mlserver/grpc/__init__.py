"""Clients of the gRPC service."""
