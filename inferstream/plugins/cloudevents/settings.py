"""Settings of CloudEvents."""

from inferstream.ext.settings import Section


class CloudEventsSettings(Section):
    """Whether requests and responses have headers of CloudEvents."""

    cloudevents_headers: bool | None = None
    """Give requests and responses MLServer's `Ce-*` headers; null does so in Kubernetes."""
