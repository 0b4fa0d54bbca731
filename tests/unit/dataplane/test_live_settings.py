"""The log of a running server, and what cannot change."""

import logging

import pytest

from inferstream.dataplane.live_settings import LiveSettings, SetLogLevel
from inferstream.dataplane.peers import Peers
from inferstream.errors import InvalidRequest
from inferstream.settings import Settings
from inferstream.telemetry.logs import server_loggers


@pytest.fixture(autouse=True)
def _levels():
    before = {name: logging.getLogger(name).level for name in server_loggers()}
    for name in server_loggers():
        logging.getLogger(name).setLevel(logging.INFO)
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def level() -> int:
    return logging.getLogger("inferstream").level


async def test_the_switches_are_the_level_of_the_log() -> None:
    live = LiveSettings(Settings(), Peers())
    assert live.log() == {
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
    assert live.log()["log_error"] is False


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
async def test_what_is_wrong_changes_nothing(changes: dict[str, object], said: str) -> None:
    live = LiveSettings(Settings(), Peers())
    with pytest.raises(InvalidRequest, match=said):
        await live.update_log({"log_verbose_level": 0, **changes})
    assert level() == logging.INFO


async def test_every_front_end_follows() -> None:
    asked = []

    async def ask(index: int, question: SetLogLevel) -> None:
        asked.append((index, question.level))

    live = LiveSettings(Settings(), Peers(0, 3, ask))
    await live.update_log({"log_info": False})
    assert asked == [(1, logging.WARNING), (2, logging.WARNING)]


async def test_a_trace_can_be_read_and_not_changed() -> None:
    live = LiveSettings(Settings(), Peers())
    assert live.trace()["trace_level"] == ["OFF"]
    assert LiveSettings(Settings(tracing_server="localhost:4317"), Peers()).trace()["trace_level"] == [
        "TIMESTAMPS"
    ]
    assert live.update_trace({"trace_level": ["OFF"], "trace_rate": None}) == live.trace()
    with pytest.raises(InvalidRequest, match="tracing_server decides"):
        live.update_trace({"trace_level": ["TIMESTAMPS"]})
    with pytest.raises(InvalidRequest, match="no setting of the trace"):
        live.update_trace({"trace_colour": "red"})
