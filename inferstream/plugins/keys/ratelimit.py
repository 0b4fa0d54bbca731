"""Rate-limit response headers in the format of OpenAI clients."""

from .account import Window

_MILLISECOND = 1_000_000
"""Nanoseconds per millisecond."""


def build_headers(requests: Window | None, tokens: Window | None) -> dict[str, str]:
    """Return the headers `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` for the configured limits."""
    headers = {}
    for kind, window in (("requests", requests), ("tokens", tokens)):
        if window is not None:
            headers[f"x-ratelimit-limit-{kind}"] = str(window.limit)
            headers[f"x-ratelimit-remaining-{kind}"] = str(window.left)
            headers[f"x-ratelimit-reset-{kind}"] = format_duration(window.reset)
    return headers


def format_duration(nanoseconds: int) -> str:
    """Format a duration like the OpenAI API, rounded up: `120ms`, `1s`, `6m0s`, `1h0m0.5s`."""
    milliseconds = -(-nanoseconds // _MILLISECOND)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{shown}{rest / 1000:.10g}s"
