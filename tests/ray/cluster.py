"""Runs a cluster of Ray on this machine that serves a folder or an app, and obeys lines on its input.

`python cluster.py SERVED HTTP_PORT GRPC_PORT`, with the settings of the server and options of Serve as JSON in
RAY_HOST_OPTIONS, and the address at which Serve listens in RAY_HOST_ADDRESS. A line of JSON deploys again with these
options. SIGTERM stops in good order.
"""

import json
import os
import signal
import sys
import tempfile

import ray
from ray import serve
from ray.serve.config import HTTPOptions, gRPCOptions

from inferstream.plugins.ray import application

SERVICES = "inferstream.plugins.ray.rpcs.add_services"


class Stopped(Exception):
    """The process has been told to stop."""


def stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def main(served: str, http_port: str, grpc_port: str) -> None:
    options = {
        "num_replicas": 2,
        "ray_actor_options": {"num_cpus": 0.1},
        **json.loads(os.environ["RAY_HOST_OPTIONS"]),
    }
    ray.init(
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        _temp_dir=tempfile.mkdtemp(prefix="ray"),  # short: sockets have paths of 107 bytes at most
    )
    print("cluster", ray.get_runtime_context().gcs_address, flush=True)
    signal.signal(signal.SIGTERM, stop)  # after Ray's own handler, which ends the process at once
    try:
        serve.start(
            proxy_location="HeadOnly",
            http_options=HTTPOptions(host=os.environ["RAY_HOST_ADDRESS"], port=int(http_port)),
            grpc_options=gRPCOptions(port=int(grpc_port), grpc_servicer_functions=[SERVICES]),
        )
        serve.run(application(served, **options))
        print("deployed", flush=True)
        for line in sys.stdin:
            serve.run(application(served, **{**options, **json.loads(line)}))
            print("deployed", flush=True)
        signal.pause()
    except Stopped:
        serve.delete("default")
        serve.shutdown()
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
