"""gRPC as others define it: their test cases, their clients, and what a server must stand."""
