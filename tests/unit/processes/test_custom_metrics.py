"""Metrics of model code, told to another process."""

import asyncio
import threading

from inferstream.processes.custom_metrics import CustomMetricSender
from inferstream.processes.frames import Frame, Logged, Registered


async def test_what_model_code_does_in_the_loop_leaves_at_once() -> None:
    sent: list[Frame] = []
    sender = CustomMetricSender(sent.append)
    sender.registered("depth", "How deep")
    sender.logged("m", "1", {"depth": 2.0})
    assert sent == [Registered("depth", "How deep"), Logged("m", "1", {"depth": 2.0})]


async def test_what_it_does_in_another_thread_is_sent_from_the_loop() -> None:
    sent: list[int] = []
    sender = CustomMetricSender(lambda _: sent.append(threading.get_ident()))
    await asyncio.to_thread(sender.logged, "m", "1", {"depth": 2.0})
    await asyncio.sleep(0)
    assert sent == [threading.get_ident()]
