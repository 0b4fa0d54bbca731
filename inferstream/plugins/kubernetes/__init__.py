"""Kubernetes: what gateways and KServe expect of a server."""

from inferstream.ext import Extension, Position

extension = Extension(
    "kubernetes",
    dialects={
        "instances": "inferstream.server.rest.dialects.instances:Instances",
        "load": "inferstream.plugins.kubernetes.load_dialect:LoadRoutes",
    },
    edges={
        "load": Position("inferstream.plugins.kubernetes.load_edge:build_edge", outside="record"),
    },
)
