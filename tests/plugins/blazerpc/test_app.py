"""Apps of BlazeRPC."""

import asyncio
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from inferstream import testing
from inferstream.errors import InvalidSettings, Unsupported
from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    BlazeApp,
    Context,
    TensorInput,
    TensorOutput,
    ValidationError,
)
from blazerpc.server.middleware import (  # type: ignore[import-not-found]
    LoggingMiddleware,
)


def test_app_and_client_import_no_server() -> None:
    code = (
        "import sys; from inferstream.ext.hosting import install_aliases; install_aliases()\n"
        "from blazerpc import BlazeApp, BlazeClient, JsonRpcClient\n"
        "app = BlazeApp()\n"
        "assert app.import_path() == (None, None)\n"
        "assert not {'fastapi', 'uvicorn', 'prometheus_client', 'inferstream.server.server'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_app_records_its_module(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text("from blazerpc import BlazeApp\nserved = BlazeApp()\n")
    sys.path.insert(0, str(tmp_path))
    try:
        import made  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("made", None)
    assert made.served.import_path() == ("made:served", str(tmp_path / "made.py"))


def test_function_needs_parameters_and_unique_name() -> None:
    app = BlazeApp()
    with pytest.raises(ValidationError, match="at least one parameter"):
        app.model("none")(lambda: 1)
    app.model("x")(lambda x: x)
    with pytest.raises(InvalidSettings, match='a model "x" is there already'):
        app.model("x")(lambda x: x)


def test_only_array_models_with_batch_size_are_batched() -> None:
    app = BlazeApp(max_batch_size=8, batch_timeout_ms=4)
    rows, pairs = TensorInput[np.float32, "batch", 4], TensorOutput[np.float32, "batch", 2]

    @app.model("rows")
    def of_rows(x: rows, y: rows) -> pairs: ...

    @app.model("single")
    def single(x: rows, scale: float) -> pairs: ...

    @app.model("sum")
    def total(x: rows) -> TensorOutput[np.float32, 4]: ...

    @app.model("context")
    def context(x: rows, ctx: Context) -> pairs: ...

    @app.model("free")
    def free(x): ...

    found = {settings.name: (settings.max_batch_size, settings.max_batch_time) for settings in app.settings()}
    assert found.pop("rows") == (8, 0.004)
    assert {*found.values()} == {(0, 0.0)}
    off = BlazeApp(enable_batching=False)
    off.model("rows")(of_rows)
    assert off.settings()[0].max_batch_size == 0


async def test_batch_runs_once_and_splits_rows() -> None:
    app = BlazeApp(batch_timeout_ms=10_000)
    began, go_on, sizes = asyncio.Event(), asyncio.Event(), []
    column = TensorInput[np.float32, "batch", 1]

    @app.model("scale")
    async def scale(x: column) -> column:
        sizes.append(len(x))
        if len(sizes) == 1:
            began.set()
            await go_on.wait()
        return x * 2

    async with testing.run(app) as models:
        first = asyncio.create_task(models.infer("scale", x=np.zeros((1, 1), np.float32)))
        await began.wait()
        others = [
            asyncio.create_task(models.infer("scale", x=np.full((n, 1), n, np.float32))) for n in (1, 2, 3)
        ]
        for _ in range(100):
            await asyncio.sleep(0)  # until all others gather
        go_on.set()
        found = [response.outputs[0].data.flat() for response in await asyncio.gather(first, *others)]
    assert found == [[0], [2], [4, 4], [6, 6, 6]]
    assert sizes == [1, 6]


def test_middleware_cannot_be_attached_to_server() -> None:
    with pytest.raises(Unsupported, match=r"BlazeApp\(middleware="):
        LoggingMiddleware().attach(None)
