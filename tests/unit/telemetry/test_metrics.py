"""All meters of a server, as a scrape shows them."""

from inferstream.telemetry.meter_set import (
    Buckets,
)
from inferstream.telemetry.metrics import Meters
from inferstream.telemetry.stages import CacheMeters, StepMeters, StoreMeters


def test_every_histogram_kind_uses_configured_bounds() -> None:
    meters = Meters(buckets=Buckets(requests=(1.0, 2.0), first_item=(3.0,), between_items=(4.0,)))
    model = meters.of("m", None)
    model.durations["success"].observe(1.5)
    model.streams.first.observe(1)
    model.streams.gaps.observe(1)
    meters.rest.requests["GET", "/x", "200"].observe(1.5)
    rpc = meters.rpc("UNARY", "s", "m")
    rpc.started = 1
    rpc.count_end("OK", 1.5)
    found: dict[str, list[str]] = {}
    for family in meters.collect():
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                found.setdefault(family.name, []).append(sample.labels["le"])
    for name in ("inferstream_call_seconds", "rest_server_request_duration_seconds"):
        assert found[name] == ["1.0", "2.0", "+Inf"]
    assert found["grpc_server_handling_seconds"] == ["1.0", "2.0", "+Inf"]
    assert found["inferstream_time_to_first_item_seconds"] == ["3.0", "+Inf"]
    assert found["inferstream_time_between_items_seconds"] == ["4.0", "+Inf"]
    assert found["inferstream_queue_wait_seconds"][0] == "0.0001"


def test_only_step_models_have_step_metrics() -> None:
    meters = Meters()
    meters.of("plain", None)
    stepping = meters.of("stepping", "2").of(StepMeters)
    stepping.count_step(3, 0.5)
    stepping.active = 3
    text = meters.exposition().decode()
    lines = [
        line for line in text.splitlines() if line.startswith(("inferstream_step_", "inferstream_streams_"))
    ]
    assert not any("plain" in line for line in lines)
    labels = '{model="stepping",version="2"}'
    assert f"inferstream_streams_active{labels} 3.0" in text
    assert f"inferstream_step_size_sum{labels} 3.0" in text
    assert f"inferstream_step_seconds_sum{labels} 0.5" in text


def series(meters: Meters, family: str) -> dict[tuple[str, ...], float]:
    """The values of a family by their labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for each in meters.collect()
        if each.name == family
        for sample in each.samples
        if not sample.name.endswith("_created")
    }


def test_model_meters_survive_a_reload() -> None:
    meters = Meters()
    meters.of("m", "1").durations["success"].observe(0.5)
    assert meters.of("m", "1") is meters.of("m", "1")
    assert meters.of("m", "1") is not meters.of("m", None)
    assert series(meters, "inferstream_calls") == {("m", "1", "success"): 1}


def test_rest_metric_prefix_is_configurable() -> None:
    meters = Meters("my_rest")
    meters.rest.requests["GET", "/v2", "200"].observe(0.1)
    meters.rest.requests["GET", "/v2", "200"].observe(0.2)
    assert series(meters, "my_rest_requests") == {("inferstream", "GET", "/v2", "200"): 2}
    assert b"rest_server" not in meters.exposition()


def test_uncalled_rpc_has_no_series() -> None:
    meters = Meters()
    called, _ = (meters.rpc("UNARY", "s", name) for name in ("Called", "Other"))
    called.started += 1
    called.count_end("OK", 0.1)
    called.count_end("INTERNAL", 0.1)
    assert series(meters, "grpc_server_started") == {("UNARY", "s", "Called"): 1}
    assert series(meters, "grpc_server_handled") == {
        ("UNARY", "s", "Called", "OK"): 1,
        ("UNARY", "s", "Called", "INTERNAL"): 1,
    }


def test_active_calls_exclude_queued_calls() -> None:
    meters = Meters()
    model = meters.of("m", None)
    model.in_flight, model.queue.depth = 5, 2
    assert series(meters, "inferstream_calls_active") == {("m", ""): 3}
    model.in_flight = 1  # a call is counted in the queue a moment longer
    assert series(meters, "inferstream_calls_active") == {("m", ""): 0}


def test_visible_stage_has_families_before_any_model_uses_it() -> None:
    meters = Meters()
    store = StoreMeters()
    store.entries = 4
    assert "inferstream_cache_lookups" not in [family.name for family in meters.collect()]
    meters.show(CacheMeters, store)
    names = [family.name for family in meters.collect()]
    assert "inferstream_cache_lookups" in names
    assert series(meters, "inferstream_cache_entries") == {(): 4}


async def test_meters_of_all_processes_are_collected() -> None:
    there, here = Meters(), Meters()
    there.of("m", None).durations["success"].observe(0.5)
    assert b'inferstream_calls_total{end="success",model="m",version=""}' not in await here.scrape()

    exposition = there.exposition()  # once: it has the time that the process has used

    async def fetch() -> bytes:
        return exposition

    here.elsewhere = fetch
    assert await here.scrape() == exposition
    everywhere = {family.name: family for family in await here.everywhere()}
    (calls,) = (each for each in everywhere["inferstream_calls"].samples if each.name.endswith("_total"))
    assert (calls.labels["end"], calls.value) == ("success", 1)
