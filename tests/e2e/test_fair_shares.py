"""Keys share a model with steps by tokens, over HTTP and with answers of unequal length."""

import asyncio
import hashlib
import json
import secrets
from collections import Counter
from pathlib import Path

import httpx

from tests.serving import Running, write_model

CODE = """
import asyncio
from pathlib import Path
from inferstream import Finished, StepModel
from inferstream.types import InferenceResponse, ResponseOutput


class Gated(StepModel):
    steps = 0

    async def admit(self, payload):
        return [payload.inputs[0].data.flat()[0]]

    async def step(self, states):
        while not Path("gate").exists():
            await asyncio.sleep(0.01)
        self.steps += 1
        emissions = []
        for state in states:
            state[0] -= 1
            output = ResponseOutput(name="step", datatype="INT64", shape=[1], data=[self.steps])
            response = InferenceResponse(model_name=self.name, outputs=[output])
            emissions.append(response if state[0] else Finished(response))
        return emissions
"""

KEYS = {f"key{number}": f"ifs_key{number}_{secrets.token_urlsafe(32)}" for number in range(32)}
LENGTHS = {name: 1 + number for number, name in enumerate(KEYS)}
"""Tokens of each answer of a key."""

EACH = 64
"""Tokens that each key asks for at least."""


def jain(used: list[int]) -> float:
    """Jain's index of fairness: 1 where all have the same, 1/n where one has all."""
    return sum(used) ** 2 / (len(used) * sum(each * each for each in used))


def test_32_waiting_keys_get_equal_shares(tmp_path: Path) -> None:
    folder = tmp_path / "served"
    write_model(folder, "gated", "gated.Gated", CODE, max_active=8)
    entries = [
        {
            "id": name,
            "principal": name,
            "sha256": hashlib.sha256(key.encode()).hexdigest(),
            "scopes": ["infer", "stream", "metrics"],
            "models": ["*"],
        }
        for name, key in KEYS.items()
    ]
    (folder / "keys.json").write_text(json.dumps({"version": 1, "keys": entries}))
    (folder / "settings.json").write_text(json.dumps({"keys_file": str(folder / "keys.json")}))
    server = Running(folder)
    try:
        steps = asyncio.run(asked_by_all(server, tmp_path / "gate"))
    finally:
        assert server.stop() == 0, server.text()
    # The last answer of a key begins: from here on it waits for no turn any more.
    last = min(max(answer[0] for answer in answers) for answers in steps.values())
    used = Counter(
        {name: sum(step < last for each in answers for step in each) for name, answers in steps.items()}
    )
    assert min(used.values()) > EACH / 2
    assert jain([*used.values()]) >= 0.98, used


async def asked_by_all(server: Running, gate: Path) -> dict[str, list[list[int]]]:
    """The steps of each token of each answer, by key. All calls are there before the first step ends."""
    calls = {name: -(-EACH // length) + 1 for name, length in LENGTHS.items()}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:

        async def ask(name: str) -> list[int]:
            body = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [LENGTHS[name]]}]}
            async with client.stream(
                "POST", "/v2/models/gated/infer_stream", json=body, headers=shown(name)
            ) as answer:
                assert answer.status_code == 200, await answer.aread()
                return [
                    json.loads(line.removeprefix("data: "))["outputs"][0]["data"][0]
                    async for line in answer.aiter_lines()
                    if line.startswith("data: ")
                ]

        async with asyncio.TaskGroup() as group:
            tasks = {
                name: [group.create_task(ask(name)) for _ in range(count)] for name, count in calls.items()
            }
            async with asyncio.timeout(60):
                while await depth(client) < sum(calls.values()) - 16:  # those that have a slot
                    await asyncio.sleep(0.05)
            gate.touch()
        return {name: [task.result() for task in its] for name, its in tasks.items()}


async def depth(client: httpx.AsyncClient) -> float:
    """Calls that wait for their turn."""
    page = (await client.get("/metrics", headers=shown("key0"))).text
    lines = [line for line in page.splitlines() if line.startswith("inferstream_queue_depth{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def shown(name: str) -> dict[str, str]:
    return {"x-api-key": KEYS[name]}
