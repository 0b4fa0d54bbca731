"""gRPC, unary and streaming, in the dialects its clients speak."""
