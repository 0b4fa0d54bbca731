"""Kubernetes: what gateways and KServe expect of a server."""

from inferstream.ext import Extension

extension = Extension(
    "kubernetes",
    settings="inferstream.plugins.kubernetes.settings:KubernetesSettings",
    dialects={
        "instances": "inferstream.server.rest.dialects.instances:Instances",
    },
)
