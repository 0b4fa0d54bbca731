"""`serve` in a program that runs an event loop."""

import pytest

from inferstream import App, serve
from inferstream.errors import InvalidSettings


async def test_an_event_loop_that_runs_is_named() -> None:
    app = App()

    @app.model
    def one() -> int:
        return 1

    with pytest.raises(InvalidSettings, match=r"serve\(\) blocks, and an event loop runs in this thread"):
        serve(app)
