"""GPU memory, read at scrape time from a library that is already installed or imported."""

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

logger = logging.getLogger("inferstream.telemetry")


class DeviceMemory(NamedTuple):
    """The memory of one GPU in bytes, over all processes."""

    device: str
    used: int
    total: int


class GpuMemory(Collector):
    """Reads GPU memory with `pynvml` if it is installed, otherwise with PyTorch if this process has imported it."""

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
        except Exception as error:  # a library can raise anything
            if not self._failed:
                logger.warning("reading GPU memory failed: %s: %s", type(error).__name__, error)
            self._failed = True
        return (used, total)

    def _devices(self) -> Iterable[DeviceMemory]:
        if not self._sought:  # on the first scrape: most servers have no GPU
            self._sought = True
            self._nvml = _load_nvml()
        return _read_torch() if self._nvml is None else _read_nvml(self._nvml)


def _load_nvml() -> Any:
    """Return the initialized `pynvml` module, or None if it or the driver is missing."""
    try:
        import pynvml  # imported lazily: it is optional
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _read_nvml(pynvml: Any) -> Iterator[DeviceMemory]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(index))
        yield DeviceMemory(str(index), memory.used, memory.total)


def measure_processes(processes: Sequence[int]) -> dict[str, int]:
    """Return the bytes that these processes use on each device. Empty without `pynvml` or a driver."""
    if (pynvml := _load_nvml()) is None:
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


def _read_torch() -> Iterator[DeviceMemory]:
    """Yield the devices on which PyTorch uses memory in this process. PyTorch is never imported for this."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return
    for index in range(cuda.device_count()):
        if cuda.memory_reserved(index):  # querying an unused device would allocate memory on it
            free, total = cuda.mem_get_info(index)
            yield DeviceMemory(str(index), total - free, total)
