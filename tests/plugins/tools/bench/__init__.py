"""Load on one model of a server."""
