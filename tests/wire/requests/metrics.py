"""Metrics: the names and labels that are there after everything else has been asked."""

from ..http import get

CASES = [get("metrics", "/metrics", show="metrics")]
