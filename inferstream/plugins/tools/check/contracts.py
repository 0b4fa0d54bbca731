"""The contracts of a model. Each is a guarantee, with a test that runs on generated examples."""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from inferstream.errors import Code, InvalidOutput
from inferstream.types import InferenceRequest, TensorData

from .answers import Answers, are_close, are_equal, fits, join_answers, join_text, summarize_outputs
from .blocked import find_open_generators
from .subject import Subject, SubjectFailed, copy_request


class Fault(Exception):
    """Raised if a contract is violated. The message describes the violation."""


class ExampleRefused(Exception):
    """Raised if the model rejects an example, which is then not evidence for or against a contract."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Limits of a check.

    `ending` is the maximum number of seconds from the disconnect of a client to the end of its call. `calls`
    is the number of calls between two memory measurements. `seconds` is the time limit of each contract, so
    slow models are called less often.
    """

    ending: float = 1.0
    calls: int = 1000
    seconds: float = 10.0


Drawn = list[InferenceRequest]
"""The requests of an example."""

Run = Callable[[Subject, Drawn, CheckLimits], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Contract:
    """A guarantee that models are tested for.

    Each example has `requests` requests. `rows` is their first dimension if it is variable, or None for a
    random size.
    """

    name: str
    run: Run
    missing: Callable[[Subject], str] = lambda subject: ""
    """Returns the reason why the contract does not apply to the model, or an empty string."""
    requests: int = 1
    rows: int | None = None
    examples: int | None = None
    """Maximum number of examples, for expensive contracts. None for the number that the user chose."""
    worker: bool = False
    """Whether a worker process must be started first, outside the time limit."""


async def check_declared_inputs(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    try:
        await subject.infer(drawn[0])
    except SubjectFailed as failed:
        if failed.error.code is Code.INVALID:
            raise ExampleRefused(str(failed)) from None
        if not isinstance(failed.error, InvalidOutput):
            raise Fault(f"it fails for inputs that it declares: {failed}") from None


async def check_declared_outputs(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    try:
        responses = [await subject.infer(drawn[0])] if subject.predicts else await subject.stream(drawn[0])
    except SubjectFailed as failed:
        if isinstance(failed.error, InvalidOutput):
            raise Fault(str(failed.error)) from None
        raise ExampleRefused(str(failed)) from None
    for answer in responses:
        _check_outputs(subject, answer)


def _check_outputs(subject: Subject, answer: Answers) -> None:
    """Raise Fault unless the response has the declared outputs."""
    for declared in subject.outputs:
        if declared.name not in answer:
            raise Fault(f"it declares the output {declared.name}, and answers {summarize_outputs(answer)}")
        if not fits(answer[declared.name], declared, subject.shaped):
            given = answer[declared.name]
            raise Fault(
                f"it declares {declared.name} as {declared.datatype} {declared.shape}, "
                f"and answers {given.datatype} {given.shape}"
            )


async def check_statelessness(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    first = await _take_example(subject, drawn[0])
    await _take_example(subject, drawn[1])
    again = await subject.infer(drawn[0])
    if not are_equal(first, again):
        raise Fault(
            f"the same request is answered {summarize_outputs(first)} and later {summarize_outputs(again)}"
        )


async def check_concurrent_calls(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    alone = [await _take_example(subject, request) for request in drawn]
    together = await asyncio.gather(*(subject.infer(request) for request in drawn), return_exceptions=True)
    for expected, got in zip(alone, together, strict=True):
        if isinstance(got, BaseException):
            raise Fault(f"among other calls it fails: {got}")
        if not are_equal(expected, got):
            raise Fault(
                f"a call is answered {summarize_outputs(expected)} alone, and {summarize_outputs(got)} among others"
            )


async def check_batch_invariance(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    alone = [await _take_example(subject, request) for request in drawn]
    batch = copy_request(drawn[0])
    for index, tensor in enumerate(batch.inputs):
        tensors = [request.inputs[index] for request in drawn]
        values = TensorData([value for part in tensors for value in part.data])
        batch.inputs[index] = tensor.model_copy(
            update={"shape": [len(drawn), *tensor.shape[1:]], "data": values}
        )
    together, expected = await subject.infer(batch), join_answers(alone)
    if together.keys() != expected.keys() or not all(
        are_close(together[name], expected[name]) for name in expected
    ):
        raise Fault(
            f"rows are answered {summarize_outputs(expected)} alone, and {summarize_outputs(together)} in one batch"
        )


async def check_stream(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    whole = await _take_example(subject, drawn[0])
    parts = await subject.stream(drawn[0])
    if not parts:
        raise Fault(f"its stream is empty, and its answer {summarize_outputs(whole)}")
    stream = join_answers(parts)
    for name, expected in whole.items():
        if name not in stream:
            raise Fault(f"its stream has no output {name}")
        written = join_text(expected)
        if written is not None and join_text(stream[name]) == written:
            continue
        if not any(are_close(part[name], expected) for part in (stream, parts[-1]) if name in part):
            raise Fault(f"it streams {summarize_outputs(stream)}, and answers {summarize_outputs(whole)}")


async def check_cancellation(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    before = find_open_generators()
    try:
        await subject.abandon_stream(drawn[0])
    except SubjectFailed as failed:
        raise ExampleRefused(str(failed)) from None
    until = time.monotonic() + limits.ending
    while left := find_open_generators().keys() - before.keys():
        if time.monotonic() > until:
            raise Fault(
                f"{len(left)} generator of a stream had not ended {limits.ending:g} s after its caller left"
            )
        await asyncio.sleep(LOOKING)


async def check_worker(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    expected = await _take_example(subject, drawn[0])
    worker = await subject.subjects.start_worker()
    try:
        got = await subject.infer(drawn[0], worker)
    except SubjectFailed as failed:
        raise Fault(f"it fails in a worker process: {failed}") from None
    if not are_equal(expected, got):
        raise Fault(
            f"it answers {summarize_outputs(expected)} here, and {summarize_outputs(got)} in a worker process"
        )


async def check_encodings(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    await _take_example(subject, drawn[0])
    await _compare_transports(subject, drawn[0], [door for door in subject.doors if door.startswith("REST")])


async def check_transports(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    expected = await _take_example(subject, drawn[0])
    if subject.predicts:
        await _compare_transports(
            subject, drawn[0], [door for door in subject.doors if door != "REST binary"], expected
        )
    if not subject.streams:
        return
    streamed = join_answers(await subject.stream(drawn[0]))
    for door in ("REST typed", "gRPC typed"):
        if door in subject.doors and not are_equal(
            over := join_answers(await subject.stream_over(door, drawn[0])), streamed
        ):
            raise Fault(
                f"it streams {summarize_outputs(streamed)} in process, and {summarize_outputs(over)} over {door}"
            )


async def check_memory(subject: Subject, drawn: Drawn, limits: CheckLimits) -> None:
    await _take_example(subject, drawn[0])
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
    kept = sum(line.size_diff for line in grown)
    if kept > KEPT_BY_CACHES + calls * KEPT_BY_A_CALL:
        line = grown[0].traceback[0]
        raise Fault(
            f"each call keeps {kept / calls:,.0f} bytes, most of them from {line.filename}:{line.lineno}"
        )


KEPT_BY_CACHES = 16 * 1024
"""Number of bytes that may be retained whatever the number of calls, because caches are still filling."""

KEPT_BY_A_CALL = 256
"""Average number of additional bytes that a call may retain."""

LOOKING = 0.02
"""Seconds between checks of the generators of an abandoned stream."""

FEWEST = 10
"""Number of calls for estimating how many fit into the time limit."""


async def _repeat(subject: Subject, request: InferenceRequest, calls: int) -> None:
    for _ in range(calls):
        await subject.infer(request)
    gc.collect()


async def _take_example(subject: Subject, request: InferenceRequest) -> Answers:
    """Return the response to an example. Raises ExampleRefused if the call fails."""
    try:
        return await subject.infer(request)
    except SubjectFailed as failed:
        raise ExampleRefused(str(failed)) from None


async def _compare_transports(
    subject: Subject, request: InferenceRequest, doors: list[str], expected: Answers | None = None
) -> None:
    """Raise Fault unless all transports return `expected`. If it is None, the first response is expected."""
    first = "in process"
    for door in doors:
        try:
            got = await subject.infer_over(door, request)
        except SubjectFailed as failed:
            raise Fault(f"it fails over {door}: {failed}") from None
        if expected is None:
            expected, first = got, f"over {door}"
        elif not are_equal(expected, got):
            raise Fault(
                f"it answers {summarize_outputs(expected)} {first}, and {summarize_outputs(got)} over {door}"
            )


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
    Contract("accepts declared inputs", check_declared_inputs),
    Contract(
        "returns declared outputs",
        check_declared_outputs,
        lambda subject: "" if subject.outputs else "it declares no outputs",
    ),
    Contract("keeps no state", check_statelessness, requests=2),
    Contract("concurrent calls", check_concurrent_calls, requests=4),
    Contract("batch-invariant", check_batch_invariance, _rows, requests=3, rows=1),
    Contract("stream matches predict", check_stream, _both),
    Contract(
        "stops on cancel",
        check_cancellation,
        lambda subject: "" if subject.streams else "it does not stream",
        examples=3,
    ),
    Contract("same in a worker", check_worker, examples=5, worker=True),
    Contract(
        "JSON matches binary",
        check_encodings,
        lambda subject: "" if subject.predicts else "it only streams",
        examples=10,
    ),
    Contract("transports match", check_transports, examples=10),
    Contract("no memory growth", check_memory, examples=1),
]
"""All contracts, in the order in which they are tested."""
