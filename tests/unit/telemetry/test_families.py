"""The meters of several processes, added up."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from inferstream.telemetry.families import Sums, to_families


def process(count: float, depth: float, seconds: float, **labels: str) -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("calls", "Calls", [*labels], registry=registry).labels(**labels).inc(count)
    Gauge("depth", "Waiting", registry=registry).set(depth)
    Histogram("took_seconds", "Seconds", registry=registry, buckets=(1, 2)).observe(seconds)
    return registry


def lines(sums: Sums) -> set[str]:
    return {line for line in sums.exposition().decode().splitlines() if "_created" not in line}


def test_every_series_appears_once_with_its_sum() -> None:
    sums = Sums()
    sums.add(to_families(process(2, 3, 0.5, model="a").collect()))
    sums.add(to_families(process(5, 4, 1.5, model="a").collect()))
    sums.add(to_families(process(7, 1, 9, model="b").collect()))
    found = lines(sums)
    assert {'calls_total{model="a"} 7.0', 'calls_total{model="b"} 7.0', "depth 8.0"} <= found
    assert {'took_seconds_bucket{le="1.0"} 1.0', 'took_seconds_bucket{le="+Inf"} 3.0'} <= found
    assert "took_seconds_sum 11.0" in found
    assert len([line for line in found if line.startswith("# TYPE calls")]) == 1


def test_ended_process_keeps_counters_and_drops_gauges() -> None:
    sums = Sums()
    sums.add(to_families(process(2, 3, 0.5, model="a").collect()), over=True)
    found = lines(sums)
    assert 'calls_total{model="a"} 2.0' in found
    assert not any(line.startswith("depth") for line in found)
