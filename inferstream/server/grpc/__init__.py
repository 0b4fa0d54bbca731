"""gRPC inference: unary and streaming RPCs in several dialects."""
