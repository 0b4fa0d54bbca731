"""gRPC-Web: the same RPCs for browsers, over HTTP."""
