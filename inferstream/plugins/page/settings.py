"""Settings of the web page."""

from inferstream.ext.settings import Section


class PageSettings(Section):
    """The setting that enables the web page."""

    page: bool = True
    """Serve the web page at `/` and `/docs`."""
