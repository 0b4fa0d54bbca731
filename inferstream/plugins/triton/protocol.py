"""Extensions of the protocol that Triton defines and this server has."""

from inferstream import Settings


def has_always(_: Settings) -> bool:
    """One that needs no setting."""
    return True


def has_with_one_front_end(settings: Settings) -> bool:
    """One that needs all requests to come to one front end."""
    return settings.frontends == 1
