"""The run of a check: every contract of every model, with examples from hypothesis."""

import asyncio
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ...concurrency.event_loop import new_event_loop
from ...errors import InferstreamError, InvalidSettings, MissingExtra
from ...types import InferenceRequest
from .contracts import CONTRACTS, CheckLimits, Contract, ExampleRefused, Fault
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


def run(options: Options) -> int:
    """Check the models and print the results. Returns 0 if all passed, 1 for a fault or a failure."""
    try:
        with _quiet(), asyncio.Runner(loop_factory=new_event_loop) as runner:
            results = _check(options, runner)
        return options.report.write(results)
    except InvalidSettings as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  # a command line's last word
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)  # noqa: T201
    return 1


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


def _check(options: Options, runner: asyncio.Runner) -> list[Result]:
    context = serving(options.target)
    subjects = runner.run(context.__aenter__())
    try:
        return [
            result
            for name in _names(options, subjects, runner)
            for result in _one(name, options, subjects, runner)
        ]
    finally:
        runner.run(context.__aexit__(None, None, None))


def _names(options: Options, subjects: Subjects, runner: asyncio.Runner) -> list[str]:
    index = runner.run(subjects.application.registry.index(False))
    names = list(dict.fromkeys(entry.name for entry in index))
    if unknown := [name for name in options.models if name not in names]:
        raise InvalidSettings(f"no model {unknown[0]}; there are {', '.join(names) or 'none'}")
    return list(options.models) or names


def _one(name: str, options: Options, subjects: Subjects, runner: asyncio.Runner) -> list[Result]:
    """The results of one model."""

    async def subject() -> Subject:
        return Subject(subjects, name)

    try:
        checked = runner.run(subject())
    except InferstreamError as error:
        index = runner.run(subjects.application.registry.index(False))
        reasons = [entry.reason for entry in index if entry.name == name and entry.reason]
        return [Result(name, "loads", "failed", "; ".join(reasons) or str(error))]
    if not checked.inputs:
        return [Result(name, "loads", "skipped", "it declares no inputs, so that no requests can be made")]
    return [_tried(contract, checked, options, runner) for contract in CONTRACTS]


def _tried(contract: Contract, subject: Subject, options: Options, runner: asyncio.Runner) -> Result:
    """The result of one contract: a fault has the smallest example that was met in time."""
    if reason := contract.missing(subject):
        return Result(subject.name, contract.name, "skipped", reason)
    attempt = _Attempt(contract, subject, options, runner)
    with suppress(Fault, HypothesisException):  # the attempt has what they say
        attempt.examples()
    if attempt.fault:
        return Result(subject.name, contract.name, "failed", attempt.fault)
    if not attempt.taken:
        reason = f"it takes no example: {attempt.refusal}"
        return Result(subject.name, contract.name, "skipped", reason)
    return Result(subject.name, contract.name, "passed")


class _Attempt:
    """Examples of a contract, and what they showed."""

    def __init__(
        self, contract: Contract, subject: Subject, options: Options, runner: asyncio.Runner
    ) -> None:
        self._contract, self._subject, self._options, self._runner = contract, subject, options, runner
        self._until = time.monotonic() + options.limits.seconds
        self.fault = ""
        self.refusal = "none was made"
        self.taken = 0

    def examples(self) -> None:
        """Try them. Raises Fault, or an error of hypothesis where a fault does not come again."""
        contract, options = self._contract, self._options
        limited = settings(
            max_examples=min(contract.examples or options.examples, options.examples),
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
        if time.monotonic() > self._until:
            return
        try:
            self._runner.run(self._bounded(drawn))
            self.taken += 1
        except TimeoutError:
            self.refusal = f"an example took longer than {self._options.limits.seconds:g} s"
        except ExampleRefused as refused:
            self.refusal = str(refused)
        except (Fault, SubjectFailed) as fault:
            self._until = min(self._until, time.monotonic() + SMALLER)
            self.fault = f"{fault}; with {brief(drawn)}"
            raise Fault(self.fault) from None

    async def _bounded(self, drawn: list[InferenceRequest]) -> None:
        limits = self._options.limits
        async with asyncio.timeout(limits.seconds):
            await self._contract.run(self._subject, drawn, limits)
