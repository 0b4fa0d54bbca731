"""Routes that hide each other."""

from typing import Any

import pytest
from fastapi import FastAPI

from inferstream import App, Application, MLModel
from inferstream.errors import InvalidSettings
from inferstream.handlers import custom_handler


class Model(MLModel):
    @custom_handler(rest_path="/v2/health/live")
    async def hidden(self) -> int:
        return 1

    @custom_handler(rest_path="/own")
    async def own(self) -> int:
        return 2

    async def predict(self, payload: Any) -> Any: ...


def app() -> App:
    made = App()

    @made.model
    def size(text: str) -> int:
        return len(text)

    return made


async def test_a_route_that_the_server_claims_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with Application(Model):
        pass
    hidden = [record.getMessage() for record in caplog.records if "is hidden" in record.getMessage()]
    assert len(hidden) == 1
    assert 'model Model: its route /v2/health/live is hidden: the dialect "metadata" claims it' in hidden[0]


@pytest.mark.parametrize(
    ("before", "behind", "message"),
    [
        (
            "/models/v2/health/ready",
            "/x",
            'hides "/models/v2/health/ready" of the application mounted at "/models"',
        ),
        ("/x", "/models/other", 'the application mounted at "/models" hides the route "/models/other"'),
    ],
)
async def test_a_mount_that_hides_or_is_hidden_does_not_start(before: str, behind: str, message: str) -> None:
    application = Application(app())
    host = FastAPI()
    host.get(before)(lambda: 1)
    host.mount("/models", application.asgi)
    host.get(behind)(lambda: 2)
    with pytest.raises(InvalidSettings, match=message):
        async with application.lifespan(host):
            pass
