"""A request costs what its size and the values that count explain, by every API and for every shape of content.

Memory is the peak of the server's processes during the request. The server before these counts took 128 times the
size of a text for the errors of its elements, and 30 times that of empty elements.
"""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.servers import forget_peak, memory
from inferstream.protos.json_checks import OBJECT
from tests.json_doors import FUNCTIONS, TEXTS, elements, started
from tests.serving import Running

VALUES = 100_000
"""The limit of the servers."""

NOISE = 16 * 2**20
"""Bytes that the allocator and the interpreter may keep beside the request."""

SHAPES: dict[str, Callable[[int], tuple[str, int]]] = {
    "lists": lambda count: ("[" + ",".join(["[]"] * count) + "]", count + 1),
    "objects": lambda count: ("[" + ",".join(["{}"] * count) + "]", count * OBJECT + 1),
    "strings": lambda count: ("[" + ",".join(['"a"'] * count) + "]", count + 1),
    "literals": lambda count: ("[" + ",".join(["null"] * count) + "]", count + 1),
    "keys": lambda count: (
        "{" + ",".join([f'"{at}":""' for at in range(count // 2)]) + "}",
        count // 2 * 2 + OBJECT,
    ),
    "numbers": lambda count: ("[" + ",".join(["123456"] * count) + "]", count - 1),
    "rows": lambda count: (
        "[" + ",".join(['{"a":1}'] * (count // OBJECT)) + "]",
        count // OBJECT * (OBJECT + 1) + 1,
    ),
    "one text": lambda count: (f'["{"a" * count * 8}"]', 2),
}
"""A text of about so many values by shape, and how many count."""

BODIES = ("flat", "instances", "CloudEvents", "JSON-RPC", "MCP")
"""APIs whose arguments are the body itself, whose numbers do not count unless they become a list."""


def _peak(server: Running, send: Callable[[], str]) -> tuple[str, int]:
    """The refusal of a request, and by how many bytes the processes of the server grew at most."""
    pids = [server.process.pid, *server.workers()]
    before = 0
    for pid in pids:
        forget_peak(pid)
        before += memory(pid)
    said = send()
    return said, sum(memory(pid, "VmHWM") for pid in pids) - before


def _expect(said: str, grown: int, size: int, counted: int) -> None:
    assert ("max_json_values" in said) == (counted > VALUES), (said[:300], counted)
    kept = min(counted, VALUES)
    assert grown <= 8 * size + 100 * kept + NOISE, (grown, size, counted)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = started(tmp_path_factory.mktemp("counts") / "functions", max_json_values=VALUES)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = started(tmp_path_factory.mktemp("counts") / "texts", text=True, max_json_values=VALUES)
    yield running
    assert running.stop() == 0, running.text()


COUNTS = st.sampled_from([VALUES // 2, VALUES * 4])
OF_TEXTS = ("guided_json", "structured_outputs", "grammar")


@pytest.mark.parametrize("api", [*FUNCTIONS, *OF_TEXTS])
@settings(max_examples=6)
@given(shape=st.sampled_from([*SHAPES]), count=COUNTS)
def test_text_cost_is_size_and_values(
    functions: Running, texts: Running, api: str, shape: str, count: int
) -> None:
    text, counted = SHAPES[shape](count)
    if api in BODIES and shape == "numbers":
        counted += 1  # they are counted one by one
    server, send = (texts, TEXTS[api]) if api in TEXTS else (functions, FUNCTIONS[api])
    said, grown = _peak(server, lambda: send(server, text))
    _expect(said, grown, len(text), counted)


@pytest.mark.parametrize("way", ["binary", "raw", "contents", "region", "region by gRPC"])
@settings(max_examples=6)
@given(
    count=st.sampled_from([VALUES // 2, VALUES, VALUES + 1, VALUES * 10]), size=st.sampled_from([0, 1, 40])
)
def test_element_cost_is_size_and_count(functions: Running, way: str, count: int, size: int) -> None:
    said, grown = _peak(functions, lambda: elements(functions, way, count, size))
    _expect(said, grown, count * (4 + size), count)
