"""Metrics of model code, told to another process."""

import asyncio
import threading

from inferstream.processes.custom_metrics import CustomMetricSender
from inferstream.processes.frames import Frame, Logged, Registered


async def test_metrics_from_the_loop_are_sent_immediately() -> None:
    sent: list[Frame] = []
    sender = CustomMetricSender(sent.append)
    sender.register("depth", "How deep")
    sender.log("m", "1", {"depth": 2.0})
    assert sent == [Registered("depth", "How deep"), Logged("m", "1", {"depth": 2.0})]


async def test_metrics_from_other_threads_are_sent_from_the_loop() -> None:
    sent: list[int] = []
    sender = CustomMetricSender(lambda _: sent.append(threading.get_ident()))
    await asyncio.to_thread(sender.log, "m", "1", {"depth": 2.0})
    await asyncio.sleep(0)
    assert sent == [threading.get_ident()]
