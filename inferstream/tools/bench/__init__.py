"""`server bench`: load on one model of a server, and its measurements."""
