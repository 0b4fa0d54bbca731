"""How many examples a property test tries."""

from hypothesis import settings

USUAL = 100  # of a test that says nothing, in `make test`


def examples(number: int) -> settings:
    """Settings of a test that tries so many in `make test`; in `make unit` as much less as any other test."""
    return settings(max_examples=max(1, number * settings.default.max_examples // USUAL))
