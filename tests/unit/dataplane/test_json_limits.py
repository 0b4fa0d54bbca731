"""The settings that limit JSON."""

import pytest

from inferstream.dataplane.json_limits import json_limits
from inferstream.errors import InvalidRequest, PayloadTooLarge
from inferstream.settings import Settings


def test_json_size_limit_defaults_to_body_limit() -> None:
    body = b"[" + b" " * 98 + b"]"
    json_limits(Settings(max_body_bytes=100)).check(body)
    with pytest.raises(PayloadTooLarge, match="max_json_bytes"):
        json_limits(Settings(max_body_bytes=100, max_json_bytes=99)).check(body)


def test_json_depth_and_values_are_counted() -> None:
    with pytest.raises(InvalidRequest, match="max_json_depth"):
        json_limits(Settings(max_json_depth=2)).check(b"[[[]]]")
    with pytest.raises(InvalidRequest, match="max_json_values"):
        json_limits(Settings(max_json_values=2)).check(b'["a", "b", "c"]')
