"""CloudEvents: headers for MLServer deployments, and events around KServe requests."""

from inferstream.ext import Extension

extension = Extension(
    "cloudevents",
    settings="inferstream.plugins.cloudevents.settings:CloudEventsSettings",
    stages={
        "cloudevents": "inferstream.plugins.cloudevents.events:marking",
    },
    workers={
        "cloudevents": "inferstream.plugins.cloudevents.events:WorkerEvents",
    },
)
