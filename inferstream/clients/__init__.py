"""Clients of V2 servers, over REST and gRPC."""
