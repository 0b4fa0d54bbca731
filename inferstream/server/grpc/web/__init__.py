"""gRPC-Web: the RPCs over HTTP/1.1, for browsers."""
