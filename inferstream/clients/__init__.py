"""Clients of V2 servers, ours or others', over REST and gRPC."""
