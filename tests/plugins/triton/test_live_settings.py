"""The log of a running server, and what cannot change."""

import logging

import pytest

from inferstream import Settings
from inferstream.errors import InvalidRequest
from inferstream.ext.calls import Peers
from inferstream.plugins.triton.live_settings import LOGGERS, LiveSettings, SetLogLevel


@pytest.fixture(autouse=True)
def _levels():
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO)
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def level() -> int:
    return logging.getLogger("inferstream").level


async def test_switches_set_log_level() -> None:
    live = LiveSettings(Settings(), Peers())
    assert live.read_log() == {
        "log_file": "",
        "log_format": "default",
        "log_info": True,
        "log_warning": True,
        "log_error": True,
        "log_verbose_level": 0,
    }
    await live.update_log({"log_verbose_level": 2})
    assert level() == logging.DEBUG
    await live.update_log({"log_verbose_level": 0, "log_info": False})
    assert level() == logging.WARNING
    await live.update_log({"log_warning": False})
    assert level() == logging.ERROR
    await live.update_log({"log_error": False})
    assert level() > logging.CRITICAL
    assert live.read_log()["log_error"] is False


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"log_everything": True}, "no setting of the log"),
        ({"log_file": "/tmp/x"}, "cannot change while the server runs"),
        ({"log_info": "yes"}, "must be true or false"),
        ({"log_verbose_level": -1}, "must be a whole number"),
        ({"log_warning": False}, "one scale"),
    ],
)
async def test_invalid_settings_change_nothing(changes: dict[str, object], said: str) -> None:
    live = LiveSettings(Settings(), Peers())
    with pytest.raises(InvalidRequest, match=said):
        await live.update_log({"log_verbose_level": 0, **changes})
    assert level() == logging.INFO


async def test_settings_apply_to_every_front_end() -> None:
    asked = []

    async def ask(index: int, question: SetLogLevel) -> None:
        asked.append((index, question.level))

    live = LiveSettings(Settings(), Peers(0, 3, ask))
    await live.update_log({"log_info": False})
    assert asked == [(1, logging.WARNING), (2, logging.WARNING)]


async def test_trace_settings_are_read_only() -> None:
    live = LiveSettings(Settings(), Peers())
    assert live.read_trace()["trace_level"] == ["OFF"]
    assert LiveSettings(Settings(tracing_server="localhost:4317"), Peers()).read_trace()["trace_level"] == [
        "TIMESTAMPS"
    ]
    assert live.update_trace({"trace_level": ["OFF"], "trace_rate": None}) == live.read_trace()
    with pytest.raises(InvalidRequest, match="tracing_server decides"):
        live.update_trace({"trace_level": ["TIMESTAMPS"]})
    with pytest.raises(InvalidRequest, match="no setting of the trace"):
        live.update_trace({"trace_colour": "red"})
