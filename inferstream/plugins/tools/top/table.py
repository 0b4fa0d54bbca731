"""The implementation of `server top`: a table of models and their figures, live or once."""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import httpx
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from inferstream.errors import HINT, ConnectionFailed
from inferstream.ext.hosting import ClientTarget, report_errors, server_unreachable

from ..messages import NEEDS_KEY
from .rates import Model, ModelRates, Scrape, compute_rows, find_window_start

METRICS = "/metrics"
METRICS_PORT = 8082

WINDOW = 15.0
"""The period of the quantiles in the live table, in seconds."""

TIMEOUT = 5.0

COLUMNS = (
    "model", "state", "calls/s", "errors/s", "running", "queue", "items/s", "p50", "p99", "first p50",
    "first p99", "batch",
)  # fmt: skip

RESIDENCY = ("memory", "loads", "evictions", "cold wait")
"""Additional columns if models can be evicted."""


class Figure(NamedTuple):
    """A server-wide metric and its label and unit in the header line."""

    metric: str
    name: str
    unit: str = ""


FIGURES = (
    Figure("process_resident_memory_bytes", "memory", "bytes"),
    Figure("process_start_time_seconds", "up", "since"),
    Figure("process_cpu_seconds_total", "cpu", "rate"),
    Figure("inferstream_workers", "workers"),
    Figure("inferstream_frontends", "front ends"),
    Figure("inferstream_websockets", "websockets"),
)
"""The header line above the table. Metrics that the server does not export are omitted."""


class MetricsSource:
    """The metrics and model states of a running server."""

    def __init__(self, target: ClientTarget) -> None:
        parts = urlsplit(target.base)
        path = parts.path.rstrip("/")
        self._base = target.base
        self._addresses = [target.base if path else f"{target.base}{METRICS}"]
        if not path:
            beside = parts._replace(netloc=f"{_host(parts.hostname)}:{METRICS_PORT}", path=METRICS)
            self._addresses.append(urlunsplit(beside))
        self._index = urlunsplit(parts._replace(path="/v2/repository/index"))
        self._client = httpx.Client(headers=target.headers, timeout=TIMEOUT, verify=target.verifies)

    def scrape(self) -> Scrape:
        """Scrape the current metrics. Raises ConnectionFailed."""
        problems = []
        for address in self._addresses:
            try:
                response = self._client.get(address)
            except httpx.ConnectError as error:
                if address == self._addresses[0]:  # The next address may belong to another server.
                    raise server_unreachable(self._base, error) from None
                problems.append(server_unreachable(address, error).message.partition(HINT)[0])
                continue
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                problems.append(f"{address}: {error or type(error).__name__}")
                continue
            if response.status_code == 200 and "inferstream" in response.text:
                self._addresses = [address]
                return Scrape(response.text, time.monotonic())
            if response.status_code == 401:
                raise ConnectionFailed(f"{address}: {NEEDS_KEY}")
            if response.status_code == 403:
                raise ConnectionFailed(f"{address}: 403: the metrics need a key with the scope `metrics`")
            reason = response.status_code if response.status_code != 200 else "not the metrics of this server"
            problems.append(f"{address}: {reason}")
        raise ConnectionFailed(
            "; ".join(problems) + ". If `metrics_endpoint` is another path, give the whole URL; "
            "if it is null, the server has no metrics."
        )

    def states(self) -> dict[Model, str]:
        """Return the state of each model. Empty if the repository API is not accessible."""
        with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            response = self._client.post(self._index, json={})
            if response.status_code == 200:
                return {(each["name"], each.get("version", "")): each["state"] for each in response.json()}
        return {}


@report_errors
def run(target: ClientTarget, once: bool, interval: float) -> int:
    """Show the table until the user interrupts, or once. Returns the exit code."""
    console = Console(highlight=False)
    source = MetricsSource(target)
    first = source.scrape()
    if once or not console.is_terminal:
        time.sleep(interval)
        after = source.scrape()
        if not console.is_terminal:
            console.width = 1000  # No line breaks in a pipe.
        console.print(build_view(target.base, first, after, None, source.states()))
    else:
        _live(console, target, source, first, interval)
    return 0


def _live(
    console: Console, target: ClientTarget, source: MetricsSource, first: Scrape, interval: float
) -> None:
    scrapes = deque([first])
    with Live(console=console, screen=True, auto_refresh=False) as live:
        live.update(Text("measuring …"), refresh=True)
        while True:
            time.sleep(interval)
            try:
                after = source.scrape()
            except ConnectionFailed as error:  # The server may be restarting.
                live.update(Text(f"{error}\ntrying again; Ctrl+C ends"), refresh=True)
                continue
            since = find_window_start(scrapes, WINDOW, after.time) or scrapes[-1]
            shown = build_view(target.base, scrapes[-1], after, since, source.states())
            live.update(Group(shown, Text("Ctrl+C ends", style="dim")), refresh=True)
            scrapes.append(after)
            while scrapes[0].time < after.time - WINDOW:
                scrapes.popleft()


def build_view(
    url: str, before: Scrape, after: Scrape, since: Scrape | None, states: Mapping[Model, str]
) -> Group:
    """Return the header line and the table of models.

    Without `since`, quantiles cover the time since the server started.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    by_model = {row.model: row for row in compute_rows(before, after, since)}
    may_leave = any(row.memory for row in by_model.values())
    for column in (*COLUMNS, *(RESIDENCY if may_leave else ())):
        table.add_column(column, justify="left" if column in COLUMNS[:2] else "right", overflow="fold")
    for model in sorted({*by_model, *states}):
        row = by_model.get(model)
        table.add_row(*_cells(model, row, states.get(model, "")), *(_residency(row) if may_leave else ()))
    of = "since the start" if since is None else f"of the last {WINDOW:.0f} s"
    return Group(Text(_line(url, before, after)), table, Text(f"quantiles {of}", style="dim"))


def _line(url: str, before: Scrape, after: Scrape) -> str:
    parts = [url]
    for figure in FIGURES:
        value = after.value(figure.metric)
        if value is None:
            continue
        match figure.unit:
            case "bytes":
                shown = f"{value / 2**20:,.0f} MB"
            case "since":
                shown = _duration(time.time() - value)
            case "rate":
                spent = max(value - (before.value(figure.metric) or 0.0), 0.0)
                shown = f"{100 * spent / max(after.time - before.time, 1e-9):.0f} %"
            case _:
                shown = f"{value:.0f}"
        parts.append(f"{figure.name} {shown}")
    return "   ".join(parts)


def _cells(model: Model, row: ModelRates | None, state: str) -> list[Text]:
    name = Text(model[0] if not model[1] else f"{model[0]}:{model[1]}")
    colour = {"READY": "green", "UNAVAILABLE": "red"}.get(state, "yellow")
    cells = [name, Text(state.lower(), style=colour)]
    if row is None:
        return cells + [Text("")] * (len(COLUMNS) - len(cells))
    errors = Text(f"{row.errors:.1f}", style="red" if row.errors else "")
    counts = [Text(f"{row.calls:.1f}"), errors, Text(f"{row.running:.0f}"), Text(f"{row.queued:.0f}")]
    times = [Text(_time(value)) for value in (row.p50, row.p99, row.first_p50, row.first_p99)]
    return [
        *cells,
        *counts,
        Text(f"{row.items:.1f}"),
        *times,
        Text("" if row.size is None else f"{row.size:.1f}"),
    ]


def _residency(row: ModelRates | None) -> list[Text]:
    if row is None or row.memory is None:
        return [Text("")] * len(RESIDENCY)
    size, loads, evictions = row.memory
    shown = (f"{size / 1e6:,.0f} MB" if size else "", f"{loads:.0f}", f"{evictions:.0f}", _time(row.cold))
    return list(map(Text, shown))


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def _host(name: str | None) -> str:
    return f"[{name}]" if name and ":" in name else name or "localhost"
