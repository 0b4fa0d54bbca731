"""The tables of the documentation: a summary for users, and everything for contributors."""

from typing import Any

from . import ports
from .run import STREAMS, Cell, Figures
from .works import CALLERS, WORKS

REQUESTS = {
    "REST infer, FP32 [1,4]": "REST, 4 numbers",
    "REST infer of a function, two numbers": "REST, 2 numbers, function",
    "gRPC infer, FP32 [1,4], raw": "gRPC, 4 numbers",
    "REST JSON, FP32 [1,3,224,224]": "REST, JSON image",
    "REST binary, FP32 [1,3,224,224]": "REST, binary image",
    "gRPC raw, FP32 [1,3,224,224]": "gRPC, image",
}
"""The requests of the summary: names of works, and the names that users see."""

TOKENS = {
    "SSE, 256 tokens of a function": "event stream, function",
    "SSE, 256 tokens": "event stream, class",
    "chat completions, 256 tokens": "OpenAI chat completions",
    "gRPC stream, 256 messages": "gRPC stream, class",
}
"""The streams of the summary, in the same form."""


def summary(found: dict[str, Any]) -> str:
    """The two tables of the performance page: the server CPU of a request, and of a streamed token."""
    intro = f"Measured on {found['date']}, {found['cores']} virtual cores, Python {found['python']}."
    parts = [intro, "", *_costs("request", REQUESTS, found["works"])]
    return "\n".join([*parts, "", *_costs("streamed token", TOKENS, found["works"]), ""])


def _costs(unit: str, names: dict[str, str], works: Figures) -> list[str]:
    def cost(cells: dict[str, Cell], server: str) -> str:
        if server not in cells:
            return ""
        value = cells[server]["cpu_us"]
        return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"

    lines = [f"| {unit}, CPU µs | inferstream | bare server | other server |", "|---|---|---|---|"]
    for work, name in names.items():
        cells = works[work]
        others = [f"{cost(cells, other)} ({other})" for other in ("MLServer", "LitServe") if other in cells]
        lines.append(
            f"| {name} | {cost(cells, 'inferstream')} | {cost(cells, 'bare')} | {', '.join(others)} |"
        )
    return lines


def tables(found: dict[str, Any]) -> str:
    lines = [
        f"`{found['command']}` on {found['cores']} cores, Python {found['python']}: servers on one core, load on "
        f"the other, {CALLERS} callers for small work, medians of {found['rounds']} interleaved rounds of "
        f"{found['seconds']:g} s. CPU is user and system time of the server.",
        "",
        "| work | bare µs | FastAPI µs | inferstream µs | ratio | goal | MLServer µs | MLServer / inferstream |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for work in WORKS:
        if work.transport == "grpc":
            continue
        cells = found["works"][work.name]
        ours = cells["inferstream"]["cpu_us"]
        if "bare" not in cells:
            lines.append(f"| {work.name}, per {work.unit} |  |  | {ours:,.1f} |  |  |  |  |")
            continue
        bare = cells["bare"]["cpu_us"]
        theirs = cells.get("MLServer")
        there = ("", "") if theirs is None else (f"{theirs['cpu_us']:,.1f}", f"{theirs['cpu_us'] / ours:.1f}")
        framework = f"{cells['FastAPI']['cpu_us']:,.1f}" if "FastAPI" in cells else ""
        lines.append(
            f"| {work.name}, per {work.unit} | {bare:,.1f} | {framework} | {ours:,.1f} | {ours / bare:.2f} "
            f"| ≤ {work.goal:g} | {there[0]} | {there[1]} |"
        )
    return "\n".join(
        [
            *lines,
            "",
            *_rpcs(found),
            "",
            *_chat(found["works"]),
            "",
            *_streams(found["streams"]),
            "",
            *_footprint(found),
            "",
        ]
    )


def _rpcs(found: dict[str, Any]) -> list[str]:
    """What goes over gRPC: costs as multiples of the bare server's, and of MLServer's as multiples of ours."""
    names = ["bare", *(name for name in found["messages"] if name.startswith("inferstream")), "MLServer"]

    def cost(cells: dict[str, Cell], name: str) -> str:
        if name not in cells:
            return ""
        own = cells[name]["cpu_us"]
        if name == "bare":
            return f"{own:,.1f}"
        if name == "MLServer":
            return f"{own:,.1f} ({own / cells['inferstream']['cpu_us']:.1f} x ours)"
        return f"{own:,.1f} ({own / cells['bare']['cpu_us']:.2f} x)"

    lines = [f"| gRPC, server CPU µs | goal | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for work in WORKS:
        if work.transport == "grpc":
            costs = [cost(found["works"][work.name], name) for name in names]
            lines.append(f"| {work.name}, per {work.unit} | ≤ {work.goal:g} x bare | {' | '.join(costs)} |")
    messages, tensors = found["messages"], found["raw_memory"]
    rows = (
        (f"{STREAMS} streams at 10 ms: of the ideal messages", "≥ 90 %", messages, "share", "{:.1%}"),
        (f"{STREAMS} streams at 10 ms: gap p99", "≤ 15 ms", messages, "gap_p99_ms", "{:.1f} ms"),
        (
            "memory of a raw 16 MB tensor, there and back",
            "≤ 3 x it",
            {name: {"times": times} for name, times in tensors.items()},
            "times",
            "{:.1f} x",
        ),
    )
    for row, goal, figures, field, form in rows:
        shown = [form.format(figures[name][field]) if name in figures else "" for name in names]
        lines.append(f"| {row} | {goal} | {' | '.join(shown)} |")
    return lines


def _chat(works: Figures) -> list[str]:
    """A token of chat completions beside one of `generate_stream` and one of LitServe."""
    chat = next(work.name for work in WORKS if work.litserve)
    ours, stream = works[chat]["inferstream"]["cpu_us"], works["SSE, 256 tokens"]["inferstream"]["cpu_us"]
    rows = [
        ("inferstream, `/v1/chat/completions`", ours),
        ("inferstream, `generate_stream`", stream),
        *(
            [("LitServe 0.2.19, OpenAI spec", works[chat]["LitServe"]["cpu_us"])]
            if "LitServe" in works[chat]
            else []
        ),
    ]
    lines = ["| streamed token | server CPU µs | relative to chat completions |", "|---|---|---|"]
    return lines + [f"| {name} | {cost:,.1f} | {cost / ours:.2f} |" for name, cost in rows]


def _streams(found: dict[str, dict[str, float]]) -> list[str]:
    names = list(found)
    rows = (
        (
            "time to first event, lone caller",
            "≤ 2 x bare",
            lambda one: f"{one['first_event_ms']:.2f} ms" if "first_event_ms" in one else "",
        ),
        (f"{STREAMS} streams at 10 ms: of the ideal tokens", "≥ 92 %", lambda one: f"{one['share']:.1%}"),
        (
            f"{STREAMS} streams at 10 ms: of the bare server's tokens",
            "≥ 85 %",
            lambda one: f"{one['share'] / found['bare']['share']:.1%}",
        ),
        (f"{STREAMS} streams at 10 ms: gap p99", "≤ 14 ms", lambda one: f"{one['gap_p99_ms']:.1f} ms"),
        (f"{STREAMS} streams at 10 ms: memory", "≤ 100 MB", lambda one: f"{one['rss'] / 1e6:.0f} MB"),
    )
    lines = [f"| SSE | goal | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    lines += [f"| {row} | {goal} | {' | '.join(show(found[n]) for n in names)} |" for row, goal, show in rows]
    return lines


def _footprint(found: dict[str, Any]) -> list[str]:
    one, hundred, bare = found["start"][1], found["start"][100], found["bare_start"]
    connections, models = found["by_connections"], found["by_models"]

    def looks(kind: str) -> str:
        return ", ".join(f"{costs[kind]:.0f}" for costs in found["scrapes"].values()) + " µs"

    rows = (
        ("`import inferstream`", "≤ 0.15 s", f"{found['import']:.2f} s"),
        ("start to first 200, one model", "≤ 0.45 s", f"{one['seconds']:.2f} s, CPU {one['cpu']:.2f} s"),
        (
            "start to first 200, 100 models",
            "≤ 1.0 s",
            f"{hundred['seconds']:.2f} s, CPU {hundred['cpu']:.2f} s",
        ),
        (
            "for comparison: only uvicorn, FastAPI, grpc.aio and NumPy",
            "",
            f"{bare['seconds']:.2f} s, CPU {bare['cpu']:.2f} s, {bare['rss'] / 1e6:.0f} MB",
        ),
        ("memory, one model, idle", "≤ 75 MB", f"{one['rss'] / 1e6:.0f} MB"),
        ("memory of an idle stream", "≤ 32 KiB", f"{found['idle_stream'] / 1024:.1f} KiB"),
        (
            "small request with 1, 32, 1,000 connections",
            "flat",
            ", ".join(f"{cost:.0f}" for cost in connections.values()) + " µs",
        ),
        (
            "small request with 1, 1,000 models loaded",
            "flat",
            ", ".join(f"{cost:.0f}" for cost in models.values()) + " µs",
        ),
        (
            "small HTTP/1.1 request: one port, relative to two",
            "≤ 1.02",
            f"{ports.ratio(found['ports']):.3f}",
        ),
        ("`/metrics/load` with 100 models; 0, 2 workers", "≤ 200 µs", looks("load")),
        ("`/v2/health/live`, the same", "", looks("live")),
        ("`/metrics/load` every 50 ms, the same", "", looks("load, paced")),
        ("`/v2/health/live` every 50 ms, the same", "", looks("live, paced")),
    )
    return ["| startup, memory and scaling | goal | inferstream |", "|---|---|---|"] + [
        f"| {name} | {goal} | {value} |" for name, goal, value in rows
    ]
