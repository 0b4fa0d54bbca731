"""Memory of GPUs, with libraries that stand in for those of NVIDIA and PyTorch."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from inferstream.telemetry.gpu import GpuMemory

USED, TOTAL = "inferstream_gpu_memory_used_bytes", "inferstream_gpu_memory_total_bytes"


class NVMLError(Exception):
    pass


def nvml(driver: bool = True, readable: bool = True) -> ModuleType:
    made = ModuleType("pynvml")
    made.asked = 0

    def init() -> None:
        made.asked += 1
        if not driver:
            raise NVMLError("no driver")

    def memory(handle: int) -> SimpleNamespace:
        if not readable:
            raise NVMLError("GPU is lost")
        return SimpleNamespace(used=10 + handle, total=100)

    made.NVMLError, made.nvmlInit, made.nvmlDeviceGetMemoryInfo = NVMLError, init, memory
    made.nvmlDeviceGetCount, made.nvmlDeviceGetHandleByIndex = (lambda: 2), (lambda index: index)
    return made


def torch(initialized: bool = True) -> ModuleType:
    made = ModuleType("torch")
    made.cuda = SimpleNamespace(
        is_initialized=lambda: initialized,
        device_count=lambda: 2,
        memory_reserved=lambda index: 5 * index,
        mem_get_info=lambda index: (30, 100),
    )
    return made


def scraped(collector: GpuMemory) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels["device"]): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def use(monkeypatch: pytest.MonkeyPatch, **modules: ModuleType | None) -> None:
    for name in ("pynvml", "torch"):
        monkeypatch.setitem(sys.modules, name, modules.get(name))


def test_nvml_reports_memory_of_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    library = nvml()
    use(monkeypatch, pynvml=library, torch=torch())
    collector = GpuMemory()
    expected = {(USED, "0"): 10, (TOTAL, "0"): 100, (USED, "1"): 11, (TOTAL, "1"): 100}
    assert scraped(collector) == scraped(collector) == expected
    assert library.asked == 1


@pytest.mark.parametrize("library", [None, nvml(driver=False)], ids=["without nvml", "without driver"])
def test_torch_reports_the_devices_it_uses(
    monkeypatch: pytest.MonkeyPatch, library: ModuleType | None
) -> None:
    use(monkeypatch, pynvml=library, torch=torch())
    assert scraped(GpuMemory()) == {(USED, "1"): 70, (TOTAL, "1"): 100}
    use(monkeypatch, pynvml=library, torch=torch(initialized=False))
    assert scraped(GpuMemory()) == {}


def test_torch_is_not_imported_for_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    monkeypatch.delitem(sys.modules, "torch")
    assert scraped(GpuMemory()) == {}
    assert "torch" not in sys.modules
    assert [family.name for family in GpuMemory().collect()] == [USED, TOTAL]


def test_lost_device_logs_one_line_and_keeps_the_scrape(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch, pynvml=nvml(readable=False))
    collector = GpuMemory()
    assert scraped(collector) == scraped(collector) == {}
    assert caplog.text.count("GPU is lost") == 1
