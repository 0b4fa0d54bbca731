"""Envoy, which weighs two servers of unequal speed by the load reports of their responses.

GRPC_CLIENTS names a folder where `make grpc-clients` has put it. Its policy is client_side_weighted_round_robin: a
server gets calls in proportion to those that it ended a second, divided by its utilization.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, two_free_ports, write_model

ENVOY = Path(os.environ.get("GRPC_CLIENTS", "nowhere")).resolve() / "envoy" / "bin" / "envoy"

pytestmark = pytest.mark.skipif(not ENVOY.is_file(), reason="`make grpc-clients` runs it")

CODE = """
import asyncio
from inferstream import MLModel
from inferstream.types import InferenceResponse


class Timed(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(self.settings.parameters.extra["seconds"])
        return InferenceResponse(model_name=self.name, outputs=[])
"""
SECONDS = (0.01, 0.09)
"""Seconds of a call on each server."""
ROUND = 150
"""Calls, 6 at a time."""

API = "type.googleapis.com/envoy.extensions"
POLICY = {
    "name": "by load",
    "typed_config": {
        "@type": f"{API}.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
        "blackout_period": "0s",
        "weight_update_period": "0.1s",
    },
}
HTTP2 = {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": f"{API}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
}


def at(port: int) -> dict[str, Any]:
    return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}


def cluster(name: str, ports: list[int]) -> dict[str, Any]:
    endpoints = [{"endpoint": at(port)} for port in ports]
    return {
        "name": name,
        "load_balancing_policy": {"policies": [{"typed_extension_config": POLICY}]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
        "typed_extension_protocol_options": HTTP2 if name == "grpc" else {},
    }


def listener(name: str, port: int) -> dict[str, Any]:
    router = {"name": "router", "typed_config": {"@type": f"{API}.filters.http.router.v3.Router"}}
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": name}}]
    manager = {
        "@type": f"{API}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [router],
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    return {"name": name, **at(port), "filter_chains": [chain]}


class Envoy:
    """Two servers behind Envoy, over REST and over gRPC."""

    def __init__(self, root: Path, reports: str) -> None:
        self.servers: list[Running] = []
        self.log = root / "envoy.output"
        self._envoy: subprocess.Popen[bytes] | None = None
        try:
            for number, seconds in enumerate(SECONDS):
                folder, extra = root / f"models{number}", {"extra": {"seconds": seconds}}
                write_model(
                    folder, "timed", "timed.Timed", CODE, name="timed", max_concurrency=4, parameters=extra
                )
                (folder / "settings.json").write_text(json.dumps({"load_reports": reports}))
                self.servers.append(Running(folder))
            self._start(root)
        except BaseException:
            self.stop()
            raise

    def _start(self, root: Path) -> None:
        places = {
            "rest": [server.http_port for server in self.servers],
            "grpc": [server.grpc_port for server in self.servers],
        }
        self.ports = dict(zip(places, two_free_ports(), strict=True))
        resources = {
            "listeners": [listener(name, port) for name, port in self.ports.items()],
            "clusters": [cluster(name, ports) for name, ports in places.items()],
        }
        (root / "envoy.json").write_text(json.dumps({"static_resources": resources}))
        command = [str(ENVOY), "-c", str(root / "envoy.json"), "--disable-hot-restart", "--concurrency", "1"]
        with self.log.open("w") as output:
            self._envoy = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        eventually(self._serves, 60)

    def _serves(self) -> bool:
        assert self._envoy is not None
        assert self._envoy.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{self.ports['rest']}/v2/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    def counts(self) -> list[int]:
        """Calls that each server has answered."""
        return [
            int(server.metric("model_infer_request_success_total", model="timed")) for server in self.servers
        ]

    def stop(self) -> None:
        if self._envoy is not None:
            self._envoy.terminate()
            self._envoy.wait(30)
        for server in self.servers:
            server.stop()


@pytest.fixture(scope="module", params=["always", "off"])
def envoy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Envoy]]:
    running = Envoy(tmp_path_factory.mktemp("envoy"), request.param)
    yield request.param, running
    running.stop()


async def by_rest(port: int) -> None:
    limits = httpx.Limits(max_connections=6)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=limits) as client:

        async def calls() -> None:
            for _ in range(ROUND // 6):
                (await client.post("/v2/models/timed/infer", json={"inputs": []})).raise_for_status()

        await asyncio.gather(*(calls() for _ in range(6)))


async def by_grpc(port: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = GRPCInferenceServiceStub(channel)

        async def calls() -> None:
            for _ in range(ROUND // 6):
                await stub.ModelInfer(ModelInferRequest(model_name="timed"), timeout=60)

        await asyncio.gather(*(calls() for _ in range(6)))


@pytest.mark.parametrize("over", [by_rest, by_grpc])
async def test_envoy_prefers_faster_server_with_load_reports(envoy: tuple[str, Envoy], over: Any) -> None:
    reports, running = envoy
    shares: list[int] = []
    for _ in range(10):
        before = running.counts()
        await over(running.ports[over.__name__.removeprefix("by_")])
        fast, slow = (now - then for now, then in zip(running.counts(), before, strict=True))
        assert fast + slow == ROUND
        shares.append(fast)
        if reports == "always" and fast > 2 * slow:
            return
    assert reports == "off", f"of {ROUND} calls the faster server had {shares}"
    assert {abs(share - ROUND // 2) for share in shares} <= {0, 1}, (
        "without reports it is a plain round robin"
    )
