"""The gRPC engine on the HTTP/2 implementation of this package: heads, calls and the port."""
