"""Response headers about limits, in the form that OpenAI's clients read."""

from .account import Window

_MILLISECOND = 1_000_000
"""Nanoseconds."""


def headers_of(requests: Window | None, tokens: Window | None) -> dict[str, str]:
    """`x-ratelimit-{limit,remaining,reset}-{requests,tokens}` for the limits that there are."""
    headers = {}
    for kind, window in (("requests", requests), ("tokens", tokens)):
        if window is not None:
            headers[f"x-ratelimit-limit-{kind}"] = str(window.limit)
            headers[f"x-ratelimit-remaining-{kind}"] = str(window.left)
            headers[f"x-ratelimit-reset-{kind}"] = duration(window.reset)
    return headers


def duration(nanoseconds: int) -> str:
    """A duration as OpenAI writes it, rounded up: `120ms`, `1s`, `6m0s`, `1h0m0.5s`."""
    milliseconds = -(-nanoseconds // _MILLISECOND)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{shown}{rest / 1000:.10g}s"
