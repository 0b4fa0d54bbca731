"""The registry of BlazeRPC's models."""

from collections.abc import Iterator

import pytest

from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    BlazeApp,
    Context,
    Depends,
    ModelNotFoundError,
)
from blazerpc.context import AppState  # type: ignore[import-not-found]
from blazerpc.runtime.registry import ModelRegistry  # type: ignore[import-not-found]


def test_the_registry() -> None:
    app = BlazeApp()

    def get_db(ctx: Context) -> int: ...

    @app.model("a")
    def one(x: int, ctx: Context, db: int = Depends(get_db)) -> str: ...

    @app.model("a", version="2")
    def two(x: int) -> Iterator[str]:
        yield ""

    assert [(info.name, info.version, info.streaming) for info in app.registry.list_models()] == [
        ("a", "1", False),
        ("a", "2", True),
    ]
    info = app.registry.get("a")
    assert (info.func, info.input_types, info.output_type) == (one, {"x": int}, str)
    assert (info.context_params, [*info.dep_params]) == (["ctx"], ["db"])
    assert app.registry.models["a:2"].func is two
    assert app.registry.get_or_none("a", "3") is None
    with pytest.raises(ModelNotFoundError, match="Model 'b' version '1' not found"):
        app.registry.get("b")
    assert isinstance(app.state, AppState)


def test_separate_registry_builds_equal_messages() -> None:
    registry = ModelRegistry()
    registry.register("echo", "1", lambda x: x)
    assert registry.get("echo").name == "echo"
    assert [*registry.app] == [registry.app["echo@1"]]
