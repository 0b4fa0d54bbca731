"""Kubernetes: what gateways and KServe expect of a server."""

from inferstream.ext import Extension, Position

extension = Extension(
    "kubernetes",
    requires=["cloudevents"],
    settings="inferstream.plugins.kubernetes.settings:KubernetesSettings",
    starts={"platform": "inferstream.plugins.kubernetes.ports:set_port"},
    dialects={
        "instances": "inferstream.server.rest.dialects.instances:Instances",
        "load": "inferstream.plugins.kubernetes.load_dialect:LoadRoutes",
    },
    edges={
        "load": Position("inferstream.plugins.kubernetes.load_edge:build_edge", outside="record"),
    },
    adapters={"explain": "inferstream.dataplane.execution.explaining:let_explain"},
    messages={"load": "inferstream.dataplane.load"},
    rpcs={"load": "inferstream.server.grpc.orca:build_service"},
)
