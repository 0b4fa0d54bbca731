"""Messages of Kafka have the principals, limits and counts of all other requests.

Class of attacks on a door that is not a port: what is checked for HTTP and gRPC is forgotten there.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker import Broker, Endpoint
from tests.cve.principals import HOOK, Keys, token
from tests.cve.test_evictions import CODE as HEAVY
from tests.cve.test_evictions import ROOM
from tests.cve.test_identities import ALIKE, WHO
from tests.cve.test_limits import ORDERED, ROWS, TABLE, begun
from tests.serving import HERE, eventually, fp32, write_model

TEXT = {"datatype": "BYTES", "shape": [1]}

PROMPT = json.dumps({"inputs": [{"name": "prompt", **TEXT, "data": ["x"]}]}).encode()

VALUES = 1000
"""The limit of the server."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = Broker()
    yield started
    started.stop()


def bearer(sub: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token(sub)}"}


async def asked(
    endpoint: Endpoint, model: str, bodies: dict[str, bytes], callers: dict[str, dict[str, str]]
) -> dict[str, dict]:
    """The answers to messages of callers, each with its own body or the one of everybody."""
    await endpoint.broker.send(
        endpoint.asked,
        *(
            (name, bodies.get(name, PROMPT), {"mlserver-model": model, **headers})
            for name, headers in callers.items()
        ),
    )
    return await endpoint.answers(*callers)


def text_model(root: Path, name: str, implementation: str, code: str, **settings: object) -> None:
    described = {"inputs": [{"name": "prompt", **TEXT}], "outputs": [{"name": "text", **TEXT}]}
    write_model(root / "models", name, implementation, code, name=name, **described, **settings)


async def test_each_principal_has_own_salt(broker: Broker, tmp_path: Path, workers: int) -> None:
    keys = Keys()
    for name in ALIKE:
        keys.add(name, ("infer",))
    text_model(tmp_path, "who", "who.Who", WHO)
    callers = {name: keys.bearer(name) for name in ALIKE} | {f"jwt:{sub}": bearer(sub) for sub in ALIKE}
    endpoint = Endpoint(tmp_path, broker, workers, keys_file=keys.write(tmp_path))
    answers = await asked(endpoint, "who", {}, callers)
    assert {name: answer["outputs"][0]["data"] for name, answer in answers.items()} == {
        name: [f"<{name}>"] for name in callers
    }
    assert endpoint.running.stop() == 0, endpoint.running.text()


async def test_key_priority_does_not_delay_other_messages(
    broker: Broker, tmp_path: Path, workers: int
) -> None:
    keys = Keys()
    for name in ("greedy", "meek"):
        keys.add(name, ("infer",))
    keys.add("operator", ("metrics",))
    text_model(tmp_path, "ordered", "ordered.Slow", ORDERED, max_concurrency=1)
    urgent = json.dumps({**json.loads(PROMPT), "parameters": {"priority": 1}}).encode()
    header = {**keys.bearer("greedy"), "x-request-priority": "1"}
    callers = {f"greedy-{at}": header if at % 2 else keys.bearer("greedy") for at in range(30)}
    callers |= {f"meek-{at}": keys.bearer("meek") for at in range(3)}
    bodies = {name: urgent for name in callers if name.startswith("greedy")}
    endpoint = Endpoint(tmp_path, broker, workers, keys_file=keys.write(tmp_path), kafka_max_in_flight=64)
    held = endpoint.running.log.with_name(endpoint.running.log.name + ".held")
    held.touch()
    answers = asyncio.create_task(asked(endpoint, "ordered", bodies, callers))
    try:
        await asyncio.to_thread(eventually, lambda: begun(endpoint.running, keys, "ordered") == len(callers))
    finally:
        held.unlink()
    await answers
    order = endpoint.running.log.read_text().split()[::2]
    assert order.count("meek") == 3
    between = "".join(name[0] for name in order[1:]).rstrip("g").split("m")
    assert max(map(len, between)) <= 2, order
    assert endpoint.running.stop() == 0, endpoint.running.text()


async def test_full_table_refuses_next_and_serves_others(broker: Broker, tmp_path: Path) -> None:
    text_model(tmp_path, "who", "who.Who", WHO)
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    environment = {"PATCHED": ROWS, "PYTHONPATH": f"{tmp_path / 'hook'}:{HERE.parent}"}
    rules = {"limits": {"requests_per_second": 0.0001, "burst": 1000}}
    endpoint = Endpoint(
        tmp_path,
        broker,
        keys_file=Keys().write(tmp_path, rules),
        kafka_max_in_flight=1,
        environment=environment,
    )
    served = {f"user-{at}": bearer(f"user-{at}") for at in range(TABLE)}
    assert all("outputs" in answer for answer in (await asked(endpoint, "who", {}, served)).values())
    late = {f"late-{at}": bearer(f"late-{at}") for at in range(3)}
    answers = await asked(endpoint, "who", {}, late)
    assert {answer["code"] for answer in answers.values()} == {"limit_exceeded"}
    again = {f"again-{at}": bearer(f"user-{at}") for at in range(TABLE)}
    assert all("outputs" in answer for answer in (await asked(endpoint, "who", {}, again)).values())
    assert endpoint.running.stop() == 0, endpoint.running.text()


async def test_key_without_evict_right_evicts_nothing(broker: Broker, tmp_path: Path) -> None:
    keys = Keys()
    keys.add("user", ("infer",))
    keys.add("admin", ("infer", "repository", "metrics"))
    for name in ("first", "second"):
        text_model(tmp_path, name, "heavy.Heavy", HEAVY, load="demand")
    endpoint = Endpoint(tmp_path, broker, models=(), keys_file=keys.write(tmp_path), max_memory=ROOM)
    user, admin = keys.bearer("user"), keys.bearer("admin")
    assert "outputs" in (await asked(endpoint, "first", {}, {"a": user}))["a"]
    refused = (await asked(endpoint, "second", {}, {"b": user}))["b"]
    assert "clients_may_evict" in refused["error"]
    assert "first" not in refused["error"]
    assert "outputs" in (await asked(endpoint, "second", {}, {"c": admin}))["c"]
    assert endpoint.running.stop() == 0, endpoint.running.text()


def element(name: str, *values: str, **parameters: object) -> dict[str, Any]:
    return {
        "name": name,
        "datatype": "BYTES",
        "shape": [len(values)],
        "data": values,
        "parameters": parameters,
    }


NESTED = json.dumps([[]] * VALUES)
MANY: dict[str, dict[str, Any]] = {
    "values": {"inputs": [element("x", *["a"] * VALUES)]},
    "JSON in a text": {"inputs": [element("x", NESTED, content_type="json")]},
    "headers": {
        "inputs": [element("x", "a")],
        "parameters": {"headers": {str(at): 1 for at in range(VALUES)}},
    },
    "parameters": {"inputs": [element("x", "a")], "parameters": {str(at): 1 for at in range(257)}},
    "parameters of an input": {"inputs": [element("x", "a", **{str(at): 1 for at in range(257)})]},
    "depth": {"inputs": [element("x", "[" * 200 + "]" * 200, content_type="json")]},
}


async def test_http_usage_counts_in_kafka(broker: Broker, tmp_path: Path) -> None:
    endpoint = Endpoint(tmp_path, broker, max_json_values=VALUES)
    bodies = {name: json.dumps(body).encode() for name, body in MANY.items()}
    bodies["good"] = json.dumps(fp32([1.0])).encode()
    answers = await asked(endpoint, "echo", bodies, {name: {} for name in bodies})
    assert "outputs" in answers.pop("good")
    assert {name for name, answer in answers.items() if answer.get("code") in ("invalid", "too_large")} == {
        *MANY
    }
    assert endpoint.running.stop() == 0, endpoint.running.text()
