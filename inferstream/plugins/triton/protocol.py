"""Conditions for the protocol extensions that Triton defines."""

from inferstream import Settings


def has_always(_: Settings) -> bool:
    """Return True, for extensions that do not depend on settings."""
    return True


def has_with_one_front_end(settings: Settings) -> bool:
    """Whether the server has one front end, for extensions that need all requests to arrive there."""
    return settings.frontends == 1
