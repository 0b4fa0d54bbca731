"""Kubernetes: what gateways and KServe expect of a server."""

from inferstream.ext import Extension

extension = Extension(
    "kubernetes",
    settings="inferstream.plugins.kubernetes.settings:KubernetesSettings",
    dialects={
        "instances": "inferstream.server.rest.dialects.instances:Instances",
    },
    adapters={"explain": "inferstream.dataplane.execution.explaining:let_explain"},
    messages={"load": "inferstream.dataplane.load"},
    rpcs={"load": "inferstream.server.grpc.orca:build_service"},
)
