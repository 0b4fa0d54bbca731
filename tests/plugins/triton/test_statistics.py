"""Triton's statistics of the calls that models have served."""

from time import time
from typing import Any

from inferstream import App, ModelError
from tests.asgi import asking


def app() -> App:
    made = App()

    @made.model(batch=4)
    def double(n: list[int]) -> list[int]:
        return [2 * each for each in n]

    @made.model("versioned", version="1")
    def first(n: int) -> int:
        return n

    @made.model("versioned", version="2")
    def second(n: int) -> int:
        raise ModelError("no")

    return made


def one(document: Any) -> Any:
    (only,) = document["model_stats"]
    return only


async def test_successes_and_failures_are_counted_separately() -> None:
    async with asking(app()) as (client, _):
        for n in (1, "x", 2):
            await client.post("/v2/models/versioned/versions/1/generate", json={"n": n})
        await client.post("/v2/models/versioned/versions/2/generate", json={"n": 1})
        first = one((await client.get("/v2/models/versioned/versions/1/stats")).json())
        second = one((await client.get("/v2/models/versioned/versions/2/stats")).json())
    assert (first["name"], first["version"]) == ("versioned", "1")
    assert (first["inference_count"], first["execution_count"]) == (2, 2)
    assert (second["inference_count"], second["execution_count"]) == (0, 0)
    assert first["inference_stats"]["success"]["count"] == 2
    assert first["inference_stats"]["success"]["ns"] > 0
    assert second["inference_stats"]["fail"]["count"] == 1
    assert second["inference_stats"]["success"] == {"count": 0, "ns": 0}
    assert abs(first["last_inference"] / 1000 - time()) < 600


async def test_batch_is_one_execution_of_its_size() -> None:
    async with asking(app()) as (client, _):
        body = {"inputs": [{"name": "n", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}]}
        assert (await client.post("/v2/models/double/infer", json=body)).status_code == 200
        stats = one((await client.get("/v2/models/double/stats")).json())
    assert (stats["inference_count"], stats["execution_count"]) == (3, 1)
    assert [(batch["batch_size"], batch["compute_infer"]["count"]) for batch in stats["batch_stats"]] == [
        (3, 1)
    ]


async def test_model_without_version_includes_all_versions() -> None:
    async with asking(app()) as (client, _):
        named = (await client.get("/v2/models/versioned/stats")).json()["model_stats"]
        every = (await client.get("/v2/models/stats")).json()["model_stats"]
        unknown = await client.get("/v2/models/nobody/stats")
    assert [model["version"] for model in named] == ["1", "2"]
    assert {model["name"] for model in every} == {"double", "versioned"}
    assert all(model["last_inference"] == 0 for model in every)
    assert unknown.status_code == 404


async def test_cache_hit_is_not_an_execution() -> None:
    cached = App()

    @cached.model(cache_enabled=True)
    def half(n: int) -> float:
        return n / 2

    async with asking(cached, cache_enabled=True) as (client, _):
        for _ in range(3):
            await client.post("/v2/models/half/generate", json={"n": 1})
        stats = one((await client.get("/v2/models/half/stats")).json())
    assert (
        stats["inference_stats"]["cache_hit"]["count"],
        stats["inference_stats"]["cache_miss"]["count"],
    ) == (2, 1)
    assert stats["execution_count"] == 1
