"""The load as text and as JSON."""

import json
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from inferstream import Settings
from inferstream.plugins.kubernetes.load import Load, Loads, ModelLoad, ServerLoad
from inferstream.plugins.kubernetes.load_headers import ALIASES, TOTALS, exposition, load_document

MODELS = [
    ModelLoad("n", "10", 1, 0, 3),
    ModelLoad("n", "9", 0, 0, 3),
    ModelLoad("m", None, 6, 2, 4, 0.1 + 0.2, 1),
]
SERVER = ServerLoad(Load(2, 5, 1.5, 0.1 + 0.2), MODELS, 0, 0, 0.0, 0.0)


class Loaded:
    async def current(self) -> ServerLoad:
        return SERVER

    def find_default_version(self, model: str) -> str | None:
        return "10" if model == "n" else None


def test_totals_are_gauges_without_labels() -> None:
    families = [*text_string_to_metric_families(exposition(SERVER.total, Settings()).decode())]
    assert [(family.name, family.type, family.documentation) for family in families] == [
        (name, "gauge", meaning) for name, meaning in TOTALS
    ]
    assert [family.samples[0][1:3] for family in families] == [({}, 2), ({}, 5), ({}, 1.5), ({}, 0.3)]


def test_each_alias_has_one_series_with_total() -> None:
    families = [
        *text_string_to_metric_families(
            exposition(SERVER.total, Settings(metric_aliases=[*ALIASES])).decode()
        )
    ]
    found = {family.name: family.samples for family in families}
    assert {len(samples) for samples in found.values()} == {1}
    assert found["nv_inference_pending_request_count"][0].value == 2
    assert found["sglang:num_running_reqs"][0].value == 5
    assert found["vllm:kv_cache_usage_perc"][0].value == 0.3
    assert "nv_inference_exec_count" not in found  # a count since the start, there and here


def test_large_number_is_written_in_full() -> None:
    assert b"\ninferstream_waiting 1234567\n" in exposition(Load(1_234_567, 0, 0.0, 0.0), Settings())


async def test_versions_are_named_if_ambiguous() -> None:
    found = json.loads(await load_document(cast(Loads, Loaded())))
    assert [*found["models"]] == ["m", "n", "n:9"]
    assert found["models"]["m"] == {
        "waiting": 2,
        "running": 4,
        "utilization": 1.5,
        "kv_usage": 0.3,
        "version": None,
    }
    assert found["models"]["n"]["version"] == "10"
    assert (found["waiting"], found["utilization"]) == (2, 1.5)
