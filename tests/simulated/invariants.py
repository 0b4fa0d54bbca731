"""What holds in every schedule."""

import asyncio
from typing import TYPE_CHECKING

from .ledger import Seen
from .loop import RESOLUTION

if TYPE_CHECKING:
    from .schedule import Schedule

CLEANUP = 0.4
"""Seconds by which a deadline may be late where no code is stubborn: the model's `finally`, and a busy loop."""

PATIENCE = 6.0
"""Seconds that each cancel costs which a model ignores."""


def check_schedule(schedule: "Schedule") -> None:
    """After the last call has ended, and while the model may still serve."""
    ledger = schedule.ledger
    assert not ledger.faults, ledger.faults
    plan = schedule.plan
    if ledger.changed is None and plan.kind not in ("steps", "workers"):
        assert ledger.most <= plan.slots, f"{ledger.most} calls ran at once in {plan.slots} slots"
    for seen in ledger.seen:
        assert len(seen.ends) == 1, f"value {seen.visit.value} ended {len(seen.ends)} times: {seen.ends}"
        shared = plan.settings.get("max_batch_size") or plan.settings.get("cache_enabled")
        assert shared or seen.begun <= 1, f"the model ran {seen.begun} times for {seen.visit}"
        _check_items(schedule, seen)
        _check_reason(schedule, seen)
        _check_deadline(schedule, seen)


def check_end(schedule: "Schedule") -> None:
    """After the model is unloaded, and no callback and no timer is left."""
    ledger, loop = schedule.ledger, schedule.loop
    assert not ledger.faults, ledger.faults
    tasks = asyncio.all_tasks(loop)
    assert not tasks, f"tasks are left: {tasks}"
    assert not loop.failures, loop.failures
    assert not ledger.running, f"code of the model runs on: {[each.values for each in ledger.running]}"
    if not ledger.crashed:
        assert not ledger.states, f"{len(ledger.states)} states were never released"
    kind, asynchronous = schedule.plan.kind, schedule.plan.asynchronous
    threads = kind == "threads" or (kind == "steps" and not asynchronous)
    for seen in ledger.seen:
        if threads:
            continue  # a frame of a virtual thread refers to those of the loop, and these to its future
        assert seen.request is None or seen.request() is None, f"the request of {seen.visit} is kept"
    _check_meters(schedule)


def _check_items(schedule: "Schedule", seen: Seen) -> None:
    visit = seen.visit
    work = schedule.plan.works[visit.value]
    (end,) = seen.ends
    single = [visit.value * 100]
    if not visit.streams:
        assert seen.items == ([] if end else single), f"{visit} got {seen.items}"
        return
    whole = [visit.value * 100 + number for number in range(len(work.pauses))]
    if schedule.plan.kind == "threads":
        whole = [] if work.error else single
    assert seen.items == whole[: len(seen.items)], f"{visit} got {seen.items}"
    if not end and len(seen.items) < visit.leaves:
        assert seen.items == whole, f"{visit} got {seen.items}, and no error"
        assert not work.error, f"{visit} got no error"


def _check_reason(schedule: "Schedule", seen: Seen) -> None:
    """Every call ended as it should, and for a reason that there was."""
    ledger, plan, visit = schedule.ledger, schedule.plan, seen.visit
    (end,) = seen.ends
    work = plan.works[visit.value]
    changed = ledger.changed is not None and seen.ended >= ledger.changed
    if end == "":
        assert not (work.error and not visit.streams), f"{visit} succeeded"
        assert seen.cancelled in ("", "id") or work.swallows, f"{visit} succeeded in spite of its cancel"
        return
    limits = [limit for limit in (plan.settings.get("request_timeout"), 300.0, visit.timeout) if limit]
    # A batch or a computation of the cache may run on for callers that have left.
    shared = plan.settings.get("max_batch_size") or plan.settings.get("cache_enabled")
    joined = bool(plan.settings.get("cache_enabled"))  # in a computation, whose own time ends first
    reasons = {
        "CancelledError": seen.cancelled in ("task", "scope"),
        "Cancelled": seen.cancelled == "id",
        "DeadlineExceeded": seen.ended - seen.opened >= min(limits) - 2 * RESOLUTION or joined,
        "Draining": changed,
        "ModelNotFound": changed,
        "ModelNotReady": changed or ledger.crashed,
        "Overloaded": bool(seen.others > plan.settings["max_queue"] or shared),
        "WorkerLost": ledger.crashed,
        "NeverStarted": ledger.crashed,
        "ModelError": work.error == "model" or (plan.kind == "steps" and bool(work.error or work.swallows)),
        "InferenceFailed": work.error == "bug" and plan.kind != "steps",
        "StepFailed": ledger.step_failed or changed,
        "InferstreamError": plan.kind == "workers" and work.error == "bug",  # came from another process
    }
    assert reasons.get(end), f"{visit} ended with {end}: {seen.said}"


def _check_deadline(schedule: "Schedule", seen: Seen) -> None:
    limits = [seen.visit.timeout, schedule.plan.settings.get("request_timeout")]
    stated = [limit for limit in limits if limit]
    if not stated or (seen.ends == [""] and seen.visit.streams and seen.visit.reading):
        return
    works = [schedule.plan.works[value] for value in schedule.plan.works]
    slack = CLEANUP + PATIENCE * sum(work.swallows for work in works)
    took = seen.ended - seen.opened
    assert took <= min(stated) + slack + seen.visit.reading, f"{seen.visit} took {took:.3f} s"


def _check_meters(schedule: "Schedule") -> None:
    """Counters say what happened, and all that was taken has been given back."""
    meters = schedule.meters
    assert meters.in_flight == 0, f"{meters.in_flight} calls in flight"
    assert meters.queue.depth == 0, f"{meters.queue.depth} calls wait"
