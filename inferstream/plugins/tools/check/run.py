"""The implementation of `server check`: tests every contract of every model with generated examples."""

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

from inferstream.errors import InferstreamError, InvalidSettings, MissingExtra
from inferstream.ext.hosting import new_event_loop, report_errors
from inferstream.types import InferenceRequest

from .blocked import find_positions, watch_block
from .contracts import CONTRACTS, LOOKING, CheckLimits, Contract, ExampleRefused, Fault
from .results import Report, Result
from .subject import Subject, SubjectFailed, Subjects, serve_subjects

try:
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings
    from hypothesis.errors import HypothesisException

    from .inputs import requests, summarize_requests
except ModuleNotFoundError as missing:
    raise MissingExtra("server check", "check", missing) from missing

SMALLER = 2.0
"""Time limit in seconds for finding a smaller failing example."""


class Options(NamedTuple):
    """The target of a check, its limits and its report."""

    target: str
    models: Sequence[str]
    examples: int
    limits: CheckLimits
    report: Report


@report_errors
def run(options: Options) -> int:
    """Check the models and print the results.

    Returns 0 if some contracts passed and none failed, otherwise 1.
    """
    results: list[Result] = []
    with _silence_logs(), asyncio.Runner(loop_factory=new_event_loop) as runner:
        _check(options, runner, results)
    return options.report.write(results)


@contextmanager
def _silence_logs() -> Iterator[None]:
    """Disable logging in the block, because each failure is reported with its example."""
    logger = logging.getLogger("inferstream")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _check(options: Options, runner: asyncio.Runner, results: list[Result]) -> None:
    others = {thread.ident for thread in threading.enumerate()}
    context = serve_subjects(options.target)
    subjects = runner.run(context.__aenter__())
    try:
        for name in _select_names(options, subjects, runner):
            _check_model(name, options, subjects, runner, results)
        if find_positions().keys() - others:
            _report_and_exit(options, results)
    finally:
        runner.run(context.__aexit__(None, None, None))


def _report_and_exit(options: Options, results: list[Result]) -> None:
    """Report the results so far and exit. A normal exit would wait for the blocked threads."""
    status = options.report.write(results)
    sys.stdout.flush()
    os._exit(status)


def _select_names(options: Options, subjects: Subjects, runner: asyncio.Runner) -> list[str]:
    index = runner.run(subjects.application.index())
    names = list(dict.fromkeys(entry.name for entry in index))
    if unknown := [name for name in options.models if name not in names]:
        raise InvalidSettings(f"no model {unknown[0]}; there are {', '.join(names) or 'none'}")
    return list(options.models) or names


def _check_model(
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
        results.append(_test_contract(contract, checked, options, runner, results))


def _test_contract(
    contract: Contract, subject: Subject, options: Options, runner: asyncio.Runner, before: list[Result]
) -> Result:
    """Test one contract. A failure is reported with the smallest example that was found in time."""
    reason = "a call of it has not ended" if subject.blocked else contract.missing(subject)
    if reason:
        return Result(subject.name, contract.name, "skipped", reason)
    if contract.worker:
        runner.run(subject.subjects.start_worker())
    attempt = _Attempt(contract, subject, options, runner, before)
    with suppress(Fault, HypothesisException):  # The attempt has stored the message.
        attempt.run_examples()
    if attempt.fault:
        return Result(subject.name, contract.name, "failed", attempt.fault)
    if not attempt.taken:
        reason = f"it takes no example: {attempt.refusal}"
        return Result(subject.name, contract.name, "skipped", reason)
    return Result(subject.name, contract.name, "passed")


@dataclass
class _Attempt:
    """The examples of one contract and their outcome."""

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

    def run_examples(self) -> None:
        """Run the examples. Raises Fault, or a Hypothesis error if a failure is not reproducible."""
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
        limited(given(drawn)(self._run_example))()

    def _run_example(self, drawn: list[InferenceRequest]) -> None:
        if time.monotonic() > self._until or self.taken >= (self._contract.examples or math.inf):
            return
        seconds = self._options.limits.seconds
        running = find_positions()
        try:
            with watch_block(2 * seconds + 1, lambda: self._exit_stuck(drawn)):
                self._runner.run(self._run_contract(drawn))
            self.taken += 1
        except TimeoutError:
            self.refusal = f"an example took longer than {seconds:g} s"
            self._subject.blocked = self._runner.run(self._find_blocking_place(running))
            if self._subject.blocked:
                self._until = 0.0
                self._fail(self._describe_running(drawn, self._subject.blocked))
        except ExampleRefused as refused:
            self.refusal = str(refused)
        except (Fault, SubjectFailed) as fault:
            self._until = min(self._until, time.monotonic() + SMALLER)
            self._fail(f"{fault}; with {summarize_requests(drawn)}")

    def _fail(self, fault: str) -> NoReturn:
        self.fault = fault
        raise Fault(fault) from None

    async def _run_contract(self, drawn: list[InferenceRequest]) -> None:
        limits = self._options.limits
        async with asyncio.timeout(limits.seconds):
            await self._contract.run(self._subject, drawn, limits)

    async def _find_blocking_place(self, running: Mapping[int, str]) -> str:
        """Wait for the threads of an abandoned call to finish, for at most the time limit.

        Returns the position of a thread that is still running, or an empty string.
        """
        until = time.monotonic() + self._options.limits.seconds
        while left := [place for thread, place in find_positions().items() if thread not in running]:
            if time.monotonic() > until:
                return left[0]
            await asyncio.sleep(LOOKING)
        return ""

    def _exit_stuck(self, drawn: list[InferenceRequest]) -> None:
        """Report the results and exit, because the model blocks the event loop of the check."""
        place = find_positions().get(threading.main_thread().ident or 0, "")
        fault = Result(
            self._subject.name, self._contract.name, "failed", self._describe_running(drawn, place)
        )
        _report_and_exit(self._options, [*self._before, fault])

    def _describe_running(self, drawn: list[InferenceRequest], place: str) -> str:
        where = f", at {place}" if place else ""
        seconds = 2 * self._options.limits.seconds
        return f"it had not ended {seconds:g} s after its call{where}; with {summarize_requests(drawn)}"
