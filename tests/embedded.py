"""A program that embeds the gRPC services of an application in a server of grpcio: `python tests/embedded.py FOLDER`.

Its other ports are those of `server start`.
"""

import asyncio
import signal
import sys
from pathlib import Path

import grpc

from inferstream.server.grpc.options import channel_arguments
from inferstream.server.server import Server
from inferstream.settings import load_settings
from inferstream.telemetry.logs import configure_logging


async def serve(folder: Path) -> None:
    settings = load_settings(folder, {"http_port": 0, "grpc_port": 0, "metrics_port": 0})
    configure_logging(settings.lowest_log_level, settings.use_structured_logging, settings.logging_settings)
    server = Server(settings)
    embedding = grpc.aio.server(options=[*channel_arguments(settings).items()])
    embedding.add_generic_rpc_handlers(server.application.grpc_services())
    port = embedding.add_insecure_port("127.0.0.1:0")
    await embedding.start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)

    def started(server: Server) -> None:
        lines = (f"REST     http://127.0.0.1:{server.ports['REST']}", f"gRPC     127.0.0.1:{port}")
        print("\n".join(lines), file=sys.stderr, flush=True)

    await server.run(started)
    await embedding.stop(1)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
