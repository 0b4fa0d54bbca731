"""`Engines`: the engines of a model, their health, and the process of the one that the server starts."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from inferstream.errors import InferstreamError
from inferstream.ext.telemetry import get_logger

from .process import EngineProcess
from .protocols.base import EngineLost, EngineSick, ProtocolMismatch
from .target import PATIENCE, EngineTarget

logger = get_logger("runtimes")

CHECK_SECONDS = 1.0
START_CHECK_SECONDS = 0.2
"""Seconds between two checks of an engine, when it serves and when it starts."""

MAX_BACKOFF_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""Seconds after which an engine that serves counts as stable, which resets the delay of restarts."""

Failures = (EngineLost, ProtocolMismatch, InferstreamError)


class Engines:
    """The engines at `targets`. `report` is called with the readiness of the model after each check."""

    def __init__(
        self,
        model: str,
        targets: list[EngineTarget],
        process: EngineProcess | None,
        report: Callable[[bool], None],
    ) -> None:
        self._model, self.targets, self._process, self._report = model, targets, process, report
        self._available = asyncio.Event()
        self._woken = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._since: float | None = None
        """When the engine that the server started became healthy. None while it starts."""
        self._restarts = 0
        self._owns = False
        """Whether this object has started the engine, and not another one for the same target."""

    @property
    def kv_usage(self) -> float | None:
        """Mean fraction of the KV caches in use."""
        known = [each.kv_usage for each in self.targets if each.kv_usage is not None]
        return sum(known) / len(known) if known else None

    async def open(self, limit: float | None) -> EngineTarget:
        """Start the engine, and return the first target that is healthy. Raises EngineLost or ProtocolMismatch."""
        until = None if limit is None else monotonic() + limit
        while True:
            self._claim_engine()
            results = await asyncio.gather(*(each.check() for each in self.targets), return_exceptions=True)
            for target, result in zip(self.targets, results, strict=True):
                if result is None:
                    self._admit(target)
                elif not isinstance(result, EngineLost):
                    raise result
            if self._available.is_set():
                break
            if self._owns and self._process is not None and (code := self._process.poll()) is not None:
                raise EngineLost(f"its command exited with code {code}")
            if until is not None and monotonic() > until:
                raise EngineLost(f"no engine at {self.targets[0].label}: {results[0]}")
            await asyncio.sleep(START_CHECK_SECONDS)
        self._watching = asyncio.create_task(self._watch())
        return next(each for each in self.targets if each.healthy)

    async def pick(self, seconds: float) -> EngineTarget:
        """Return the healthy engine with the fewest calls. Raises EngineLost if there is none in `seconds`."""
        until = monotonic() + seconds
        while True:
            healthy = [each for each in self.targets if each.healthy]
            if healthy:
                return healthy[0] if len(healthy) == 1 else min(healthy, key=lambda each: len(each.calls))
            if (left := until - monotonic()) <= 0:
                raise EngineLost("no engine is available")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._available.wait(), left)

    def suspect(self, target: EngineTarget) -> None:
        """Leave out an engine until the next check, which is due now."""
        self._leave_out(target, "a call was lost")
        self._woken.set()

    async def close(self) -> None:
        """Stop the engine that the server started, and close all connections."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await asyncio.gather(*(each.close() for each in self.targets))
        if self._process is not None:
            await self._process.stop()
            self._process.release()

    async def _watch(self) -> None:
        while True:
            waits = CHECK_SECONDS if self._available.is_set() else START_CHECK_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), waits)
            self._woken.clear()
            try:
                await asyncio.gather(*map(self._check, self.targets))
                if self._process is not None:
                    await self._tend(self._process, self.targets[0])
            except Exception:
                logger.exception("model %s: checking its engine failed", self._model)

    async def _check(self, target: EngineTarget) -> None:
        try:
            await target.check()
        except Failures as error:
            target.failures = PATIENCE if isinstance(error, EngineSick) else target.failures + 1
            self._leave_out(target, str(error))
            if target.is_given_up:
                target.end_calls()
            self._report(self._available.is_set())
        else:
            self._admit(target)

    async def _tend(self, process: EngineProcess, target: EngineTarget) -> None:
        """Restart the engine if it has exited, or is given up after it has served."""
        if not self._owns:
            if not target.healthy:
                self._claim_engine()
            return
        code = process.poll()
        if code is None and (self._since is None or not target.is_given_up):
            return
        if self._since is not None and monotonic() - self._since > STEADY_SECONDS:
            self._restarts = 0
        delay = 0.0 if not self._restarts else min(2.0 ** (self._restarts - 1), MAX_BACKOFF_SECONDS)
        self._restarts, self._since = self._restarts + 1, None
        how = "does not answer" if code is None else f"exited with code {code}"
        logger.error("model %s: its engine %s; restarting it in %g s", self._model, how, delay)
        await process.stop()
        await asyncio.sleep(delay)
        process.start()

    def _claim_engine(self) -> None:
        """Start the engine unless it is running already, also for another worker or version of the model."""
        if self._process is not None and not self._owns and self._process.claim():
            self._owns, self._since = True, None
            self._process.start()

    def _admit(self, target: EngineTarget) -> None:
        if not target.healthy:
            logger.info("model %s: the engine at %s is ready", self._model, target.address)
            target.healthy = True
        self._since = self._since or monotonic()
        target.failures = 0
        self._available.set()
        self._report(True)

    def _leave_out(self, target: EngineTarget, reason: str) -> None:
        if target.healthy:
            logger.warning("model %s: the engine at %s is left out: %s", self._model, target.address, reason)
        target.healthy, target.kv_usage = False, None
        if not any(each.healthy for each in self.targets):
            self._available.clear()
