"""Requests of probes and scrapes: they are frequent, and logs and traces omit them."""

PATHS = ("/v2/health/", "/health", "/metrics")
"""How their paths begin."""

RPCS = ("Check", "List", "Watch", "ServerLive", "ServerReady", "ModelReady")
"""Their RPCs, without the service."""
