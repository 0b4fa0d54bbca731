"""The contracts of a model: each is a promise, and how an example shows that it is broken."""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...errors import Code, InvalidOutput
from ...types import InferenceRequest, TensorData
from .answers import Answers, brief, equal, fits, joined, same, text
from .blocked import begun
from .subject import Subject, SubjectFailed, copied


class Fault(Exception):
    """A contract is broken. The message says how."""


class ExampleRefused(Exception):
    """The model does not take an example, which therefore shows nothing."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Seconds that a call may take to end once it is left, calls between two looks at the memory, and seconds for a
    contract: a slow model is called less often."""

    ending: float = 1.0
    calls: int = 1000
    seconds: float = 10.0


Drawn = list[InferenceRequest]
"""The requests of an example."""

Run = Callable[[Subject, Drawn, CheckLimits], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Contract:
    """A promise of a model. An example is of so many `requests`; `rows` is their first dimension where it varies."""

    name: str
    run: Run
    missing: Callable[[Subject], str] = lambda subject: ""
    """Why the model cannot show it; empty where it can."""
    requests: int = 1
    rows: int | None = None
    examples: int | None = None
    """At most so many, because each is dear; None for as many as the user wants."""
    worker: bool = False
    """Whether a worker process is started before, in as much time as the models take to load."""


async def answers_what_it_declares(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    try:
        await subject.infer(drawn[0])
    except SubjectFailed as failed:
        if failed.error.code is Code.INVALID:
            raise ExampleRefused(str(failed)) from None
        if not isinstance(failed.error, InvalidOutput):
            raise Fault(f"it fails for inputs that it declares: {failed}") from None


async def declares_what_it_answers(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    try:
        responses = [await subject.infer(drawn[0])] if subject.predicts else await subject.stream(drawn[0])
    except SubjectFailed as failed:
        if isinstance(failed.error, InvalidOutput):
            raise Fault(str(failed.error)) from None
        raise ExampleRefused(str(failed)) from None
    for answer in responses:
        _hold_against(subject, answer)


def _hold_against(subject: Subject, answer: Answers) -> None:
    """Raise Fault unless the answer has the declared outputs."""
    for declared in subject.outputs:
        if declared.name not in answer:
            raise Fault(f"it declares the output {declared.name}, and answers {brief(answer)}")
        if not fits(answer[declared.name], declared, subject.shaped):
            given = answer[declared.name]
            raise Fault(
                f"it declares {declared.name} as {declared.datatype} {declared.shape}, "
                f"and answers {given.datatype} {given.shape}"
            )


async def answers_the_same_again(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    first = await _taken(subject, drawn[0])
    await _taken(subject, drawn[1])
    again = await subject.infer(drawn[0])
    if not same(first, again):
        raise Fault(f"the same request is answered {brief(first)} and later {brief(again)}")


async def answers_each_caller_alone(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    alone = [await _taken(subject, request) for request in drawn]
    together = await asyncio.gather(*(subject.infer(request) for request in drawn), return_exceptions=True)
    for expected, got in zip(alone, together, strict=True):
        if isinstance(got, BaseException):
            raise Fault(f"among other calls it fails: {got}")
        if not same(expected, got):
            raise Fault(f"a call is answered {brief(expected)} alone, and {brief(got)} among others")


async def answers_rows_as_alone(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    alone = [await _taken(subject, request) for request in drawn]
    batch = copied(drawn[0])
    for index, tensor in enumerate(batch.inputs):
        tensors = [request.inputs[index] for request in drawn]
        values = TensorData([value for part in tensors for value in part.data])
        batch.inputs[index] = tensor.model_copy(
            update={"shape": [len(drawn), *tensor.shape[1:]], "data": values}
        )
    together, expected = await subject.infer(batch), joined(alone)
    if together.keys() != expected.keys() or not all(
        equal(together[name], expected[name]) for name in expected
    ):
        raise Fault(f"rows are answered {brief(expected)} alone, and {brief(together)} in one batch")


async def streams_what_it_answers(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    whole = await _taken(subject, drawn[0])
    parts = await subject.stream(drawn[0])
    if not parts:
        raise Fault(f"its stream is empty, and its answer {brief(whole)}")
    stream = joined(parts)
    for name, expected in whole.items():
        if name not in stream:
            raise Fault(f"its stream has no output {name}")
        written = text(expected)
        if written is not None and text(stream[name]) == written:
            continue
        if not any(equal(part[name], expected) for part in (stream, parts[-1]) if name in part):
            raise Fault(f"it streams {brief(stream)}, and answers {brief(whole)}")


async def ends_when_left(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    before = begun()
    try:
        await subject.leave(drawn[0])
    except SubjectFailed as failed:
        raise ExampleRefused(str(failed)) from None
    until = time.monotonic() + limits.ending
    while left := begun().keys() - before.keys():
        if time.monotonic() > until:
            raise Fault(
                f"{len(left)} generator of a stream had not ended {limits.ending:g} s after its caller left"
            )
        await asyncio.sleep(LOOKING)


async def answers_in_a_worker(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    expected = await _taken(subject, drawn[0])
    worker = await subject.subjects.worker()
    try:
        got = await subject.infer(drawn[0], worker)
    except SubjectFailed as failed:
        raise Fault(f"it fails in a worker process: {failed}") from None
    if not same(expected, got):
        raise Fault(f"it answers {brief(expected)} here, and {brief(got)} in a worker process")


async def answers_json_and_binary_alike(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    await _taken(subject, drawn[0])
    await _agree(subject, drawn[0], [door for door in subject.doors if door.startswith("REST")])


async def answers_through_all_doors_alike(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    expected = await _taken(subject, drawn[0])
    if subject.predicts:
        await _agree(subject, drawn[0], [door for door in subject.doors if door != "REST binary"], expected)
    if not subject.streams:
        return
    streamed = joined(await subject.stream(drawn[0]))
    for door in ("REST typed", "gRPC typed"):
        if door in subject.doors and not same(
            over := joined(await subject.stream_over(door, drawn[0])), streamed
        ):
            raise Fault(f"it streams {brief(streamed)} in process, and {brief(over)} over {door}")


async def keeps_no_memory(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    await _taken(subject, drawn[0])
    started = time.monotonic()
    tracemalloc.start(1)
    try:
        await _repeat(subject, drawn[0], FEWEST)
        fitting = FEWEST * limits.seconds / (time.monotonic() - started)
        if fitting < 2 * FEWEST:
            raise ExampleRefused(
                f"{FEWEST} calls take {limits.seconds / fitting * FEWEST:.1f} s, {limits.seconds:g} s are allowed"
            )
        calls = min(limits.calls, int(fitting))
        await _repeat(subject, drawn[0], calls // 5)
        before = tracemalloc.take_snapshot()
        await _repeat(subject, drawn[0], calls)
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    ignored = (tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__))
    grown = after.filter_traces(ignored).compare_to(before.filter_traces(ignored), "lineno")
    per_call = sum(line.size_diff for line in grown) / calls
    if per_call > KEPT:
        line = grown[0].traceback[0]
        raise Fault(f"each call keeps {per_call:,.0f} bytes, most of them from {line.filename}:{line.lineno}")


KEPT = 256
"""Bytes that a call may keep on average: caches of the interpreter still fill."""


LOOKING = 0.02
"""Seconds between two looks at the generators of a stream that was left."""

FEWEST = 10
"""Calls that tell how many fit into the seconds that there are."""


async def _repeat(subject: Subject, request: InferenceRequest, calls: int) -> None:
    for _ in range(calls):
        await subject.infer(request)
    gc.collect()


async def _taken(subject: Subject, request: InferenceRequest) -> Answers:
    """The answer to an example, which shows nothing if there is none."""
    try:
        return await subject.infer(request)
    except SubjectFailed as failed:
        raise ExampleRefused(str(failed)) from None


async def _agree(
    subject: Subject, request: InferenceRequest, doors: list[str], expected: Answers | None = None
) -> None:
    """Raise Fault unless all doors give this answer, or that of the first of them."""
    first = "in process"
    for door in doors:
        try:
            got = await subject.infer_over(door, request)
        except SubjectFailed as failed:
            raise Fault(f"it fails over {door}: {failed}") from None
        if expected is None:
            expected, first = got, f"over {door}"
        elif not same(expected, got):
            raise Fault(f"it answers {brief(expected)} {first}, and {brief(got)} over {door}")


def _rows(subject: Subject) -> str:
    variable = [bool(tensor.shape) and tensor.shape[0] < 0 for tensor in (*subject.inputs, *subject.outputs)]
    return (
        ""
        if subject.outputs and all(variable)
        else "it does not declare a variable first dimension of all tensors"
    )


def _both(subject: Subject) -> str:
    return "" if subject.streams and subject.predicts else "it does not both predict and stream"


CONTRACTS = [
    Contract("answers what it declares", answers_what_it_declares),
    Contract(
        "declared equals real",
        declares_what_it_answers,
        lambda subject: "" if subject.outputs else "it declares no outputs",
    ),
    Contract("keeps no state", answers_the_same_again, requests=2),
    Contract("concurrent calls", answers_each_caller_alone, requests=4),
    Contract("batch-invariant", answers_rows_as_alone, _rows, requests=3, rows=1),
    Contract("stream equals whole", streams_what_it_answers, _both),
    Contract(
        "cancel ends it",
        ends_when_left,
        lambda subject: "" if subject.streams else "it does not stream",
        examples=3,
    ),
    Contract("safe in workers", answers_in_a_worker, examples=5, worker=True),
    Contract(
        "JSON equals binary",
        answers_json_and_binary_alike,
        lambda subject: "" if subject.predicts else "it only streams",
        examples=10,
    ),
    Contract("all doors equal", answers_through_all_doors_alike, examples=10),
    Contract("memory is flat", keeps_no_memory, examples=1),
]
"""All contracts, in the order in which they are tried."""
