"""The messages."""

from inferstream.protos.messages import *  # noqa: F403  # every message, and nothing but messages, is public there
