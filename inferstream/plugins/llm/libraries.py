"""Libraries whose value errors are reported as client errors."""

from inferstream.plugins.frameworks.libraries import PIPELINES

LIBRARIES = PIPELINES.union((__name__.rpartition(".")[0],))
"""Pipeline libraries and this package."""
