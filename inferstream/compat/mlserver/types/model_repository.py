"""The protocol's types, under the module that generated them."""

from . import *  # noqa: F403  # the same names
