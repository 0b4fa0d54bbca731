"""One server with well-behaved and faulty models for every test that does not need its own."""

import functools
import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import hypothesis
import pytest

from tests.engines import ENGINES, options_of
from tests.scheduling import ByFile
from tests.serving import Running, close_interpreters, write_all_models
from tests.skips import pytest_terminal_summary as pytest_terminal_summary
from tests.texts import write_text_models

collect_ignore = ["packages"]
"""Their tests run where they are installed, as their pages describe it."""

# How long data takes to make, and an example takes to run, says how busy the machine is, and nothing of what is tested.
# The same examples in each run: a change must not fail by an example that the tree before it had not met.
# HYPOTHESIS_PROFILE=search looks for new ones.
BUSY = {"suppress_health_check": [hypothesis.HealthCheck.too_slow], "deadline": None}
hypothesis.settings.register_profile("busy", derandomize=True, database=None, **BUSY)
hypothesis.settings.register_profile("unit", derandomize=True, database=None, max_examples=20, **BUSY)
hypothesis.settings.register_profile("search", **BUSY)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "busy"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile | None:
    if config.getoption("dist") != "load":  # what `-n` alone means
        return None
    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """
    Leave what the collection makes out of what the garbage collector looks at.

    It is half a million objects that live to the end: each look at all takes a tenth of a second, and tests ask for it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests of one engine follow each other, so that the server of the session changes seldom."""
    items.sort(key=_server_of)


def _server_of(item: pytest.Item) -> tuple[int, int]:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    engine = params.get("grpc_engine", ENGINES[0])
    return (params.get("workers", -1), ENGINES.index(engine))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[object]:
    """Add the last lines of each server that a failed test used to its report."""
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {}).values()
        for running in (each for each in used if isinstance(each, Running)):
            lines = running.text().splitlines()[-60:]
            report.sections.append((f"output of the server in {running.folder.name}", "\n".join(lines)))
    return report


@pytest.fixture(autouse=True)
def enabled_garbage_collector() -> Iterator[None]:
    """Enable the garbage collector, which `server start` disables, also where a test runs it in this process."""
    yield
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def interpreters_of_servers() -> Iterator[None]:
    """The processes that servers are forks of end after all servers."""
    yield
    close_interpreters()


@pytest.fixture(scope="session", autouse=True)
def shared_tls_context() -> Iterator[None]:
    """
    Clients that verify against the default certificates share one context.

    httpx makes a context for every client, for plain HTTP too, and each reads all certificates of the system:
    this costs twenty times what a request does.
    """
    default = functools.cache(httpx.create_ssl_context)

    def create(verify: object = True, cert: object = None, trust_env: bool = True) -> object:
        if verify is True and cert is None:
            return default(trust_env=trust_env)
        return httpx.create_ssl_context(verify, cert, trust_env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", create)
        yield


@pytest.fixture(scope="session", params=[0, 2], ids=["in-process", "workers"])
def workers(request: pytest.FixtureRequest) -> int:
    """Nothing a client sees may depend on it, so whatever uses a server runs with and without."""
    return request.param


@pytest.fixture(scope="session", params=[pytest.param(ENGINES[0], id=pytest.HIDDEN_PARAM)])
def grpc_engine(request: pytest.FixtureRequest) -> str:
    """What carries the RPCs of each server; tests with EVERY_ENGINE run over all."""
    return request.param


@pytest.fixture(scope="session")
def server(workers: int, grpc_engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_all_models(tmp_path_factory.mktemp("served") / "models")
    settings = {"max_body_bytes": 4194304, "header_timeout": 2, "body_timeout": 2}
    (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": workers}))
    running = Running(folder, **options_of(grpc_engine))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="session")
def texts(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with models of text."""
    folder = write_text_models(tmp_path_factory.mktemp("texts") / "models", parallel_workers=workers)
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def start(grpc_engine: str) -> Iterator[Callable[..., Running]]:
    """Start servers for what has nothing to do with workers; they are stopped when the test ends."""
    started: list[Running] = []

    def start(folder: Path, *flags: str, **options: object) -> Running:
        started.append(Running(folder, *flags, **{**options_of(grpc_engine), **options}))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def serve(start: Callable[..., Running], workers: int) -> Callable[..., Running]:
    """Start servers on folders of the test's own, with and without workers."""

    def serve(folder: Path, *flags: str, **options: object) -> Running:
        options.setdefault("INFERSTREAM_PARALLEL_WORKERS", str(workers))
        return start(folder, *flags, **options)

    return serve
