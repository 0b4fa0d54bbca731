"""Settings of CloudEvents."""

from inferstream.ext.settings import Section


class CloudEventsSettings(Section):
    """The setting that enables CloudEvents headers."""

    cloudevents_headers: bool | None = None
    """Add the `Ce-*` headers that MLServer adds to requests and responses. If null: only in Kubernetes."""
