"""CloudEvents: the headers of MLServer's deployments."""

from inferstream.ext import Extension

extension = Extension(
    "cloudevents",
    settings="inferstream.plugins.cloudevents.settings:CloudEventsSettings",
    stages={
        "cloudevents": "inferstream.dataplane.cloudevents:marking",
    },
    workers={
        "cloudevents": "inferstream.dataplane.cloudevents:WorkerEvents",
    },
)
