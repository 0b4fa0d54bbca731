"""CloudEvents headers of requests and responses."""

from inferstream.ext import Extension

extension = Extension(
    "cloudevents",
    stages={
        "cloudevents": "inferstream.dataplane.cloudevents:marking",
    },
    workers={
        "cloudevents": "inferstream.dataplane.cloudevents:WorkerEvents",
    },
)
