"""Libraries of runtimes whose errors for values are errors of the client."""

from inferstream.plugins.frameworks.libraries import PIPELINES

LIBRARIES = PIPELINES.union((__name__.rpartition(".")[0],))
"""Packages of pipelines, and this one."""
