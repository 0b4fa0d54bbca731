"""The messages under the module name that generated client code uses."""

from .messages import *  # noqa: F403  # every message, and nothing but messages, is public there
