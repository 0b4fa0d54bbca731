"""The protocol's types."""

from inferstream.types import *  # noqa: F403  # the same names
