"""Memory of GPUs, as far as a library that is there tells it. A scrape asks; requests do not."""

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

logger = logging.getLogger("inferstream.telemetry")


class DeviceMemory(NamedTuple):
    """The memory of one GPU in bytes, of all its processes."""

    device: str
    used: int
    total: int


class GpuMemory(Collector):
    """Asks NVIDIA's library `pynvml` if it is installed, else PyTorch if this process has imported it."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._sought = self._failed = False

    def collect(self) -> Iterable[Metric]:
        used = GaugeMetricFamily(
            "inferstream_gpu_memory_used_bytes", "Memory of a GPU in use", labels=["device"]
        )
        total = GaugeMetricFamily("inferstream_gpu_memory_total_bytes", "Memory of a GPU", labels=["device"])
        try:
            for each in self._devices():
                used.add_metric([each.device], each.used)
                total.add_metric([each.device], each.total)
        except Exception as error:  # of a library, of any kind
            if not self._failed:
                logger.warning("the memory of GPUs cannot be read: %s: %s", type(error).__name__, error)
            self._failed = True
        return (used, total)

    def _devices(self) -> Iterable[DeviceMemory]:
        if not self._sought:  # at the first scrape, because most servers have no GPU
            self._sought = True
            self._nvml = _nvml()
        return _torch() if self._nvml is None else _of_nvml(self._nvml)


def _nvml() -> Any:
    """The library that reads the memory of all devices; None without it or a driver."""
    try:
        import pynvml  # late: it is optional
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _of_nvml(pynvml: Any) -> Iterator[DeviceMemory]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(index))
        yield DeviceMemory(str(index), memory.used, memory.total)


def memory_of_processes(processes: Sequence[int]) -> dict[str, int]:
    """Bytes that these processes hold on each device; nothing without `pynvml` or a driver."""
    if (pynvml := _nvml()) is None:
        return {}
    held: dict[str, int] = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        device = pynvml.nvmlDeviceGetHandleByIndex(index)
        held[str(index)] = sum(
            each.usedGpuMemory or 0
            for each in pynvml.nvmlDeviceGetComputeRunningProcesses(device)
            if each.pid in processes
        )
    return held


def _torch() -> Iterator[DeviceMemory]:
    """The devices on which PyTorch has memory in this process. It is never imported for this."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return
    for index in range(cuda.device_count()):
        if cuda.memory_reserved(index):  # a question about another device would take memory there
            free, total = cuda.mem_get_info(index)
            yield DeviceMemory(str(index), total - free, total)
