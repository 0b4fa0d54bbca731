"""Metrics: the names and labels that are there after everything else has been asked."""

from ..http import Http, get, post


def elsewhere(case: Http) -> Http:
    """A case for the metrics port."""
    return case._replace(name=f"metrics port: {case.name}", metrics_port=True)


CASES = [
    get("metrics", "/metrics", show="metrics"),
    post("posted", "/metrics"),
    elsewhere(get("metrics", "/metrics", show="metrics")),
    elsewhere(post("posted", "/metrics")),
    elsewhere(get("unknown path", "/nowhere")),
    elsewhere(get("health", "/v2/health/live")),
]
