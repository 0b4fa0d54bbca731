"""The messages."""

from inferstream.protos.messages import *  # noqa: F403  # every message, and nothing but messages, is public there
from inferstream.protos.messages import POOL, SERVICE

DESCRIPTOR = POOL.FindServiceByName(SERVICE).file
