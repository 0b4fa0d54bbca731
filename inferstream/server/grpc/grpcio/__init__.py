"""The RPCs in a grpcio server. No other module of the server imports grpcio."""
