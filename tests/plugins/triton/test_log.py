"""The log of models of Triton's Python backend."""

import logging

import pytest

from inferstream.ext.telemetry import get_logger
from inferstream.plugins.triton.log import BackendLogger


def test_log_levels_map_to_server_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, get_logger("model").name):
        BackendLogger.log_info("100 %s")
        BackendLogger.log_warn(message="a")
        BackendLogger.log_error(message="b")
        BackendLogger.log_verbose("c")
        BackendLogger.log("d", BackendLogger.WARNING)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "100 %s"),
        ("WARNING", "a"),
        ("ERROR", "b"),
        ("DEBUG", "c"),
        ("WARNING", "d"),
    ]
