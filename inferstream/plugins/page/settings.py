"""Settings of the page."""

from inferstream.ext.settings import Section


class PageSettings(Section):
    """Whether people get a page."""

    page: bool = True
    """Serve the page for people at `/` and `/docs`."""
