"""Clients for V2 servers, over REST and gRPC."""
