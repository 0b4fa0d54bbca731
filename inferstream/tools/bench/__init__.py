"""Load on one model of a server, and its measurements."""
