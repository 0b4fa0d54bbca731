"""The OpenTelemetry resource of spans and metrics. Imported only if the settings name a collector."""

from collections.abc import Mapping

from opentelemetry.sdk.resources import OTELResourceDetector, Resource


def build_resource(own: Mapping[str, str]) -> Resource:
    """Build a resource. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence over `own`.

    A `service.instance.id` in `own` always applies, because each front end pushes separate counters.
    """
    instance = {name: value for name, value in own.items() if name == "service.instance.id"}
    return Resource.create({**own, **OTELResourceDetector().detect().attributes, **instance})
