"""Load on one model of a server, and what its callers saw."""
