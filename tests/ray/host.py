"""A cluster of Ray with two replicas, as a host of the contract and for what kills and scales them."""

import json
import os
import subprocess
from pathlib import Path

from tests.serving import Running, eventually, two_free_ports

PYTHON = os.environ.get("RAY_PYTHON")
"""A Python with Ray; without one nothing runs on Ray."""

PATIENCE = 120.0
"""Seconds that a deployment may take: a cluster starts in 20 where nothing else runs."""

ALONE = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_memory_monitor_refresh_ms": "0",  # it would kill for the memory of other programs
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0",
}


class RayHost(Running):
    closes_sockets = False
    http2 = False
    holds_back = False

    def __init__(
        self,
        served: Path | str,
        root: Path,
        *,
        haproxy: bool = False,
        address: str = "127.0.0.1",
        **options: object,
    ) -> None:
        self.folder, self.haproxy = root, haproxy
        self.sees_leaving = haproxy
        self.output, self.log = root / "ray.output", root / "ray.log"
        self.log.touch()
        self.http_port, self.grpc_port = two_free_ports()
        self.url, self.grpc = f"http://127.0.0.1:{self.http_port}", f"127.0.0.1:{self.grpc_port}"
        self._deployments = 0
        self.environment = {
            "TEST_LOG": str(self.log),
            "RAY_HOST_ADDRESS": address,
            "RAY_HOST_OPTIONS": json.dumps(options),
            **ALONE,
        }
        if haproxy:
            self.environment |= {
                "RAY_SERVE_ENABLE_HA_PROXY": "1",
                "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2",
            }
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [
                    str(PYTHON),
                    str(Path(__file__).with_name("cluster.py")),
                    str(served),
                    str(self.http_port),
                    str(self.grpc_port),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=root,
                env={**os.environ, **self.environment},
            )
        try:
            self._deployed()
        except BaseException:
            self.stop()
            raise

    def _deployed(self) -> None:
        self._deployments += 1
        eventually(
            lambda: self.text().count("deployed\n") == self._deployments or self.process.poll() is not None,
            PATIENCE,
        )
        assert self.process.poll() is None, self.text()

    def deploy(self, **options: object) -> None:
        """Deploy again with other options, until Serve says that it is done."""
        self.process.stdin.write(json.dumps(options).encode() + b"\n")
        self.process.stdin.flush()
        self._deployed()

    def cluster(self) -> str:
        """The address by which nodes join."""
        [line] = [line for line in self.text().splitlines() if line.startswith("cluster ")]
        return line.removeprefix("cluster ")

    def begin_stop(self) -> None:
        self.process.terminate()

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.stdin.close()
