"""Texts that may hold keys."""

import json
import logging

import pytest

from inferstream.plugins.keys.secret import new_key
from inferstream.telemetry.logs import JSONFormatter, LineFormatter
from inferstream.telemetry.masks import CredentialMask, mask_keys


def test_keys_are_removed_from_text() -> None:
    key = new_key("abc")
    assert mask_keys(f"got {key}, twice {key}") == "got ifs_***, twice ifs_***"
    assert mask_keys("ifs_short") == "ifs_short"


@pytest.mark.parametrize("formatter", [LineFormatter(), JSONFormatter()])
def test_log_lines_contain_no_keys(formatter: logging.Formatter) -> None:
    key = new_key("abc")
    try:
        raise ValueError(f"no model {key}")
    except ValueError as error:
        raised = (type(error), error, error.__traceback__)
    record = logging.LogRecord("n", logging.ERROR, "p", 1, "request %s failed", (key,), raised)
    line = formatter.format(record)
    assert key not in line
    assert line.count("ifs_***") == 2
    if isinstance(formatter, JSONFormatter):
        assert json.loads(line)["message"] == "request ifs_*** failed"


def test_credential_values_are_masked_by_name() -> None:
    mask = CredentialMask(["x-mine"])
    assert all(
        map(mask.hides, ("x-mine", "X-Mine", "x_mine", "Authorization", "x-goog-api-key", "token-bin"))
    )
    assert not mask.hides("content-type")
    key = new_key("abc")
    assert (
        mask.mask_target(f"/v1/{key}?x_mine=a&b=c;api%2Dkey=d") == "/v1/ifs_***?x_mine=***&b=c;api%2Dkey=***"
    )
    assert CredentialMask().mask_target("/v1/a%20b?x-mine=a") == "/v1/a%20b?x-mine=a"
