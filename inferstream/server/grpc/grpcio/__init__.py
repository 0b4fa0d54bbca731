"""The gRPC engine of the library grpcio, the only part of the server that imports it."""
