"""The metrics of the live view, from all front-end processes. `/metrics` also returns them, but more slowly."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from resource import getpagesize

from inferstream.ext.calls import MessagePart, PeerQuestion, ServerParts
from inferstream.ext.telemetry import Meters, MeterSet

SHOWN = frozenset(
    f"inferstream_{name}"
    for name in (
        *("calls", "calls_in_progress", "call_seconds", "queue_depth", "batch_size", "step_size"),
        *("stream_items", "streams_waiting", "time_to_first_item_seconds", "output_tokens"),
        *("cache_lookups", "kv_caches", "kv_caches_used", "model_memory_bytes"),
        *("workers", "workers_memory_bytes"),
    )
)


class Figures(MessagePart):
    """The metrics of a model in one process, or of the process itself if the name is empty.

    Each metric has a list of numbers that can be added up: its value, or its bucket counts and its sum.
    """

    model: str
    version: str | None
    numbers: dict[str, list[float]]
    failure: tuple[float, str, str | None] | None = None
    """The last call in which the model failed: seconds since 1970, the error, and the exception of the model."""

    def without_exception(self) -> "Figures":
        """Return a copy for callers that may not read the server's log."""
        if self.failure is None:
            return self
        return Figures(self.model, self.version, self.numbers, (*self.failure[:2], None))


class ReadFigures(PeerQuestion[list[Figures]]):
    """A message that requests the metrics of another front end."""


class LiveMetrics:
    """Reads the metrics of all front ends on demand."""

    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        self.bounds: dict[str, Sequence[float]] = {}
        """The upper bounds of the buckets of each histogram."""
        parts.peers.answers(ReadFigures, self._answer)

    async def read(self) -> list[list[Figures]]:
        """Return the metrics of each front end that responds."""
        peers = self._parts.peers
        return [[*self._own()], *([] if peers.alone else await peers.ask_others(ReadFigures()))]

    async def _answer(self, _: ReadFigures) -> list[Figures]:
        return [*self._own()]

    def _own(self) -> Iterator[Figures]:
        assert self._parts.models is not None
        meters = self._parts.meters
        resident: dict[str, list[float]] = {"resident_bytes": [_resident_bytes()]}
        yield Figures("", None, resident | _error_responses(meters) | self._numbers(*meters.shared))
        for (name, version), served in self._parts.models.items():
            served.execution.measure()
            model = served.meters
            numbers = self._numbers(model, model.streams, *model.stages.values())
            if served.execution.capabilities.streams:
                numbers["streaming"] = [model.in_flight]
            yield Figures(name, version, numbers, model.last_failure)

    def _numbers(self, *sets: MeterSet) -> dict[str, list[float]]:
        """Return the values of the meters that the page shows, by name and label."""
        numbers: dict[str, list[float]] = {}
        for each in sets:
            for attribute, meter in each.declared.items():
                if meter.name not in SHOWN:
                    continue
                for key, value in each.series(attribute).items():
                    series = ":".join((meter.name, *key))
                    if meter.kind != "histogram":
                        numbers[series] = [value]
                    elif value.count:
                        self.bounds[series] = value.bounds
                        numbers[series] = [*value.counts, value.total]
        return numbers


def answer_front_ends(parts: ServerParts) -> None:
    """Answer the questions of other front ends from the start."""
    parts.of(LiveMetrics)


FAILURES = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""gRPC status codes that correspond to HTTP statuses from 500."""


def _error_responses(meters: Meters) -> dict[str, list[float]]:
    """Return the number of error responses of the server, with those that no model received."""
    rejected = failed = 0
    for (_, _, status), durations in meters.rest.requests.items():
        rejected += durations.count * status.startswith("4")
        failed += durations.count * status.startswith("5")
    for rpc in meters.rpcs:
        failed += sum(count for code, count in rpc.ends.items() if code in FAILURES)
        rejected += sum(n for code, n in rpc.ends.items() if code not in FAILURES | {"OK", "CANCELLED"})
    return {"client_errors": [rejected], "server_errors": [failed]}


def _resident_bytes() -> int:
    """Return the memory of this process, or 0 without Linux."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
    except OSError:
        return 0
