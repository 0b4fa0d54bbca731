"""Kubernetes integration: load reports for gateways, and the APIs of KServe and cloud platforms."""

from inferstream.ext import Extension, Position

extension = Extension(
    "kubernetes",
    requires=["cloudevents"],
    settings="inferstream.plugins.kubernetes.settings:KubernetesSettings",
    starts={"platform": "inferstream.plugins.kubernetes.ports:set_port"},
    dialects={
        "instances": "inferstream.plugins.kubernetes.instances:Instances",
        "load": "inferstream.plugins.kubernetes.load_dialect:LoadRoutes",
    },
    edges={
        "load": Position("inferstream.plugins.kubernetes.load_edge:build_edge", outside="record"),
    },
    adapters={
        "explain": "inferstream.plugins.kubernetes.explaining:let_explain",
        "scoring": "inferstream.plugins.kubernetes.scoring:let_score",
    },
    messages={"load": "inferstream.plugins.kubernetes.load"},
    rpcs={"load": "inferstream.plugins.kubernetes.orca_rpcs:build_service"},
)
