"""Headers about limits."""

import pytest

from inferstream.plugins.keys.account import Window
from inferstream.plugins.keys.ratelimit import build_headers, format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0000001, "1ms"),
        (0.12, "120ms"),
        (1, "1s"),
        (59.9999, "1m0s"),
        (90.951, "1m30.951s"),
        (360, "6m0s"),
        (3600.5, "1h0m0.5s"),
        (86400, "24h0m0s"),
    ],
)
def test_durations_have_openai_format(seconds, text):
    assert format_duration(int(seconds * 1e9)) == text


def test_headers_match_configured_limits():
    assert build_headers(None, None) == {}
    assert build_headers(Window(60, 59, 10**9), Window(1000, 0, 360 * 10**9)) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert "x-ratelimit-limit-tokens" in build_headers(None, Window(1, 1, 0))
