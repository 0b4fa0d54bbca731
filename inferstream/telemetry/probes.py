"""Requests of probes and scrapes, which logs and traces omit because they are frequent."""

PATHS = ("/v2/health/", "/health", "/metrics")
"""Path prefixes of these requests."""

RPCS = ("Check", "List", "Watch", "ServerLive", "ServerReady", "ModelReady")
"""RPCs of probes, without the service name."""
