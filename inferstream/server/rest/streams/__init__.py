"""REST requests over HTTP/2. Each is one stream of a connection, which may also carry gRPC calls."""
