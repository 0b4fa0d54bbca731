"""What a process adds to the meters of its models, and takes back when it ends."""

import asyncio
import sys
from pathlib import Path

import msgspec

from inferstream.dataplane.execution.base import Capabilities
from inferstream.dataplane.workers.frames import Loaded, LoadInstance, MeterChanges, Readiness, Start
from inferstream.dataplane.workers.process import InstanceMeters, WorkerProcess
from inferstream.processes.frames import Answer
from inferstream.processes.spawning import Program
from inferstream.telemetry.meter_set import Changes, MeterSet, counter
from inferstream.telemetry.model_meters import ModelMeters
from inferstream.telemetry.stages import QueueMeters, StepMeters


def changes(active: int, waiting: int) -> Changes:
    meters = StepMeters()
    meters.active, meters.waiting = active, waiting
    meters.count_step(2, 0.1)
    found = meters.drain()
    assert found is not None
    return found


def test_ended_process_drops_its_streams_and_keeps_its_counts() -> None:
    model = ModelMeters("m", None)
    meters = model.of(StepMeters)
    dying, living = InstanceMeters({1: model}), InstanceMeters({1: model})
    dying.add(MeterChanges(1, "StepMeters", changes(3, 2)))
    living.add(MeterChanges(1, "StepMeters", changes(4, 0)))
    dying.add(MeterChanges(1, "StepMeters", changes(-1, 1)))
    assert (meters.active, meters.waiting) == (6, 3)
    dying.subtract_gauges()
    dying.subtract_gauges()
    assert (meters.active, meters.waiting) == (4, 0)
    assert meters.sizes.total == 6


def test_steps_of_removed_model_are_not_counted() -> None:
    meters = {1: ModelMeters("m", None)}
    instance_meters = InstanceMeters(meters)
    instance_meters.add(MeterChanges(1, "StepMeters", changes(3, 2)))
    del meters[1]
    instance_meters.add(MeterChanges(1, "StepMeters", changes(3, 2)))
    instance_meters.subtract_gauges()
    assert meters == {}


def test_queue_counts_of_a_process_apply_to_a_model_added_later() -> None:
    meters: dict[int, ModelMeters] = {}
    instance_meters = InstanceMeters(meters)
    there = QueueMeters()
    there.count_early_exit(expired=True)
    there.waits.observe(3.0)
    changes = there.drain()
    assert changes is not None
    instance_meters.add(MeterChanges(1, "QueueMeters", changes))
    meters[1] = ModelMeters("m", None)
    here = meters[1].queue
    instance_meters.add(MeterChanges(1, "QueueMeters", changes))
    instance_meters.add(MeterChanges(2, "QueueMeters", changes))
    instance_meters.subtract_gauges()
    assert (here.expired, here.cancelled, here.waits.total) == (1, 0, 3.0)


def test_worker_only_meter_set_is_sent_by_class() -> None:
    class DemoMeters(MeterSet):
        eaten: int = counter("demo_eaten", "Portions")

    counted, model = DemoMeters(), ModelMeters("m", None)
    counted.eaten = 3
    changes = counted.drain()
    assert changes is not None
    InstanceMeters({1: model}).add(MeterChanges(1, "DemoMeters", changes))
    assert model.of(DemoMeters).eaten == 3


async def test_report_sent_at_end_of_load_is_counted(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text("import time; time.sleep(60)")
    program = Program(str(script), sys.executable, {})
    process = WorkerProcess(program, Start(False, False, None), InstanceMeters({}))
    try:
        loading = asyncio.create_task(process.load(LoadInstance(1, b"", None, 1)))
        await asyncio.sleep(0)
        loaded = Loaded(1, b"", Capabilities(True, False, False), 1, [], "declared")
        for frame in (Answer(1, msgspec.to_builtins(loaded)), Readiness(1, False, 1)):
            process._endpoint._handle_frame(frame)  # as if read at once
        assert await loading == loaded
        assert process.models == {1: False}
    finally:
        process.kill()
        await process.ended.wait()
