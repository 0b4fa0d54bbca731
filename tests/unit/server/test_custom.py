"""Models' own routes are FastAPI's, and one that FastAPI refuses is a model that did not load."""

import pytest

from inferstream import MLModel, ModelSettings, custom_handler
from inferstream.errors import ModelLoadFailed
from inferstream.handlers import HttpRequest
from inferstream.server.custom import build_route_handler


class Sums(MLModel):
    @custom_handler("/sum")
    async def sum_of(self, payload: list) -> int:
        return sum(payload)

    @custom_handler("/pair")
    def pair_of(self, payload: "tuple") -> int:
        return len(payload)


def made(model: type[MLModel]) -> MLModel:
    return model(ModelSettings(implementation=model, name="m"))


@pytest.mark.parametrize(("path", "answer"), [("/sum", b"6"), ("/pair", b"3")])
async def test_a_list_of_whatever_comes_is_the_body(path: str, answer: bytes) -> None:
    answering = await build_route_handler(made(Sums))
    assert answering is not None
    request = HttpRequest("POST", path, b"", [(b"content-type", b"application/json")], b"[1,2,3]")
    response = await answering(request)
    assert (response.status, response.body) == (200, answer)


async def test_a_route_that_cannot_be_says_which() -> None:
    class Odd(MLModel):
        @custom_handler("/odd")
        def odd(self) -> object(): ...

    with pytest.raises(ModelLoadFailed, match="Model m did not load: route /odd is refused: "):
        await build_route_handler(made(Odd))
