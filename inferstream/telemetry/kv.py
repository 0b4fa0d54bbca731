"""Meters of the KV cache of one model."""

from .meter_set import MeterSet, gauge


class KvMeters(MeterSet):
    """The use of the KV caches of one model, one in each process that runs it."""

    used: float = gauge(
        "inferstream_kv_caches_used", "Parts of the model's KV caches in use, each 0 to 1, over all processes"
    )
    caches: int = gauge("inferstream_kv_caches", "Processes that report the use of the model's KV cache")
