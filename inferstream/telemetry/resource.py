"""The OpenTelemetry resource of spans and metrics. Imported only if the settings name a collector."""

from collections.abc import Mapping

from opentelemetry.sdk.resources import OTELResourceDetector, Resource


def build_resource(own: Mapping[str, str]) -> Resource:
    """The attributes in `own`, over which OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    return Resource.create({**own, **OTELResourceDetector().detect().attributes})
