"""The OpenTelemetry resource of spans and metrics. Imported only if the settings name a collector."""

from collections.abc import Mapping

from opentelemetry.sdk.resources import OTELResourceDetector, Resource


def build_resource(own: Mapping[str, str]) -> Resource:
    """The attributes in `own`, over which OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.

    An instance in `own` stays, because each front end pushes counters that others must not replace.
    """
    instance = {name: value for name, value in own.items() if name == "service.instance.id"}
    return Resource.create({**own, **OTELResourceDetector().detect().attributes, **instance})
