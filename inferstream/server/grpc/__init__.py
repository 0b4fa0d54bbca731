"""gRPC, unary and streaming, in the dialects of its clients."""
