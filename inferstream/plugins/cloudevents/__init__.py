"""CloudEvents: the headers of MLServer's deployments."""

from inferstream.ext import Extension

extension = Extension(
    "cloudevents",
    settings="inferstream.plugins.cloudevents.settings:CloudEventsSettings",
)
