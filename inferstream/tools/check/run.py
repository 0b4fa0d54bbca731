"""The run of a check: every contract of every model, with examples from hypothesis."""

import asyncio
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from inferstream.ext.hosting import new_event_loop, report_errors

from ...errors import InferstreamError, InvalidSettings, MissingExtra
from ...types import InferenceRequest
from .blocked import places, watched
from .contracts import CONTRACTS, LOOKING, CheckLimits, Contract, ExampleRefused, Fault
from .results import Report, Result
from .subject import Subject, SubjectFailed, Subjects, serving

try:
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings
    from hypothesis.errors import HypothesisException

    from .inputs import brief, requests
except ModuleNotFoundError as missing:
    raise MissingExtra("server check", "check", missing) from missing

SMALLER = 2.0
"""Seconds in which a smaller example of a fault is looked for."""


class Options(NamedTuple):
    """What is checked, and what is written."""

    target: str
    models: Sequence[str]
    examples: int
    limits: CheckLimits
    report: Report


@report_errors
def run(options: Options) -> int:
    """Check the models and print the results. Returns 0 if all passed, 1 for a fault or a failure."""
    results: list[Result] = []
    with _quiet(), asyncio.Runner(loop_factory=new_event_loop) as runner:
        _check(options, runner, results)
    return options.report.write(results)


@contextmanager
def _quiet() -> Iterator[None]:
    """Log no failures of models: a fault is reported once, with its example."""
    logger = logging.getLogger("inferstream")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _check(options: Options, runner: asyncio.Runner, results: list[Result]) -> None:
    others = {thread.ident for thread in threading.enumerate()}
    context = serving(options.target)
    subjects = runner.run(context.__aenter__())
    try:
        for name in _names(options, subjects, runner):
            _one(name, options, subjects, runner, results)
        if places().keys() - others:
            _leave(options, results)
    finally:
        runner.run(context.__aexit__(None, None, None))


def _leave(options: Options, results: list[Result]) -> None:
    """End the process, with the results so far: Python waits for threads at its end, and these do not return."""
    status = options.report.write(results)
    sys.stdout.flush()
    os._exit(status)


def _names(options: Options, subjects: Subjects, runner: asyncio.Runner) -> list[str]:
    index = runner.run(subjects.application.index())
    names = list(dict.fromkeys(entry.name for entry in index))
    if unknown := [name for name in options.models if name not in names]:
        raise InvalidSettings(f"no model {unknown[0]}; there are {', '.join(names) or 'none'}")
    return list(options.models) or names


def _one(
    name: str, options: Options, subjects: Subjects, runner: asyncio.Runner, results: list[Result]
) -> None:
    async def subject() -> Subject:
        return await subjects.application.models.when_loaded(lambda: Subject(subjects, name))

    try:
        checked = runner.run(subject())
    except InferstreamError as error:
        index = runner.run(subjects.application.index())
        reasons = [entry.reason for entry in index if entry.name == name and entry.reason]
        results.append(Result(name, "loads", "failed", "; ".join(reasons) or str(error)))
        return
    if not checked.inputs:
        reason = "it declares no inputs, so that no requests can be made"
        results.append(Result(name, "loads", "skipped", reason))
        return
    for contract in CONTRACTS:
        results.append(_tried(contract, checked, options, runner, results))


def _tried(
    contract: Contract, subject: Subject, options: Options, runner: asyncio.Runner, before: list[Result]
) -> Result:
    """The result of one contract: a fault has the smallest example that was met in time."""
    reason = "a call of it has not ended" if subject.blocked else contract.missing(subject)
    if reason:
        return Result(subject.name, contract.name, "skipped", reason)
    if contract.worker:
        runner.run(subject.subjects.worker())
    attempt = _Attempt(contract, subject, options, runner, before)
    with suppress(Fault, HypothesisException):  # the attempt has what they say
        attempt.examples()
    if attempt.fault:
        return Result(subject.name, contract.name, "failed", attempt.fault)
    if not attempt.taken:
        reason = f"it takes no example: {attempt.refusal}"
        return Result(subject.name, contract.name, "skipped", reason)
    return Result(subject.name, contract.name, "passed")


@dataclass
class _Attempt:
    """Examples of a contract, and what they showed."""

    _contract: Contract
    _subject: Subject
    _options: Options
    _runner: asyncio.Runner
    _before: list[Result]
    fault: str = ""
    refusal: str = "none was made"
    taken: int = 0

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self._options.limits.seconds

    def examples(self) -> None:
        """Try them. Raises Fault, or an error of hypothesis where a fault does not come again."""
        contract, options = self._contract, self._options
        limited = settings(
            max_examples=options.examples,
            database=None,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,) if contract.examples else (Phase.generate, Phase.shrink),
            verbosity=Verbosity.quiet,
        )
        drawn = requests(self._subject.inputs, contract.requests, contract.rows)
        limited(given(drawn)(self._example))()

    def _example(self, drawn: list[InferenceRequest]) -> None:
        if time.monotonic() > self._until or self.taken >= (self._contract.examples or math.inf):
            return
        seconds = self._options.limits.seconds
        running = places()
        try:
            with watched(2 * seconds + 1, lambda: self._held(drawn)):
                self._runner.run(self._bounded(drawn))
            self.taken += 1
        except TimeoutError:
            self.refusal = f"an example took longer than {seconds:g} s"
            self._subject.blocked = self._runner.run(self._blocked(running))
            if self._subject.blocked:
                self._until = 0.0
                self._fail(self._not_ended(drawn, self._subject.blocked))
        except ExampleRefused as refused:
            self.refusal = str(refused)
        except (Fault, SubjectFailed) as fault:
            self._until = min(self._until, time.monotonic() + SMALLER)
            self._fail(f"{fault}; with {brief(drawn)}")

    def _fail(self, fault: str) -> NoReturn:
        self.fault = fault
        raise Fault(fault) from None

    async def _bounded(self, drawn: list[InferenceRequest]) -> None:
        limits = self._options.limits
        async with asyncio.timeout(limits.seconds):
            await self._contract.run(self._subject, drawn, limits)

    async def _blocked(self, running: Mapping[int, str]) -> str:
        """Where a thread still is, so many seconds after its call was left; empty if none is."""
        until = time.monotonic() + self._options.limits.seconds
        while left := [place for thread, place in places().items() if thread not in running]:
            if time.monotonic() > until:
                return left[0]
            await asyncio.sleep(LOOKING)
        return ""

    def _held(self, drawn: list[InferenceRequest]) -> None:
        """End the check, because the event loop that would go on is held."""
        place = places().get(threading.main_thread().ident or 0, "")
        fault = Result(self._subject.name, self._contract.name, "failed", self._not_ended(drawn, place))
        _leave(self._options, [*self._before, fault])

    def _not_ended(self, drawn: list[InferenceRequest], place: str) -> str:
        where = f", at {place}" if place else ""
        return f"it had not ended {2 * self._options.limits.seconds:g} s after its call{where}; with {brief(drawn)}"
