"""The setting of the stage."""

from inferstream.ext.settings import Section


class ShoutSettings(Section):
    shout_hush_header: str = "x-quiet"
    """Header of calls that are refused."""
