"""RPCs in a server of the library grpcio. No other part of the server imports the library."""
