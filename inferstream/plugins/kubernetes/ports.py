"""The port that Vertex AI and SageMaker choose."""

import os

from inferstream.errors import InvalidSettings
from inferstream.ext.settings import ServerStart

PORTS = ("AIP_HTTP_PORT", "SAGEMAKER_BIND_TO_PORT")
"""Variables by which Vertex AI and SageMaker say where they send requests."""


def set_port(start: ServerStart) -> None:
    """Serve REST at the port of the platform unless somebody names another. Raises InvalidSettings."""
    port = next((value for name in PORTS if (value := os.environ.get(name))), None)
    if port is None:
        return
    if not port.isdecimal():
        raise InvalidSettings(f"environment: {' or '.join(PORTS)}: {port!r} is no port")
    start.defaults.setdefault("http_port", int(port))  # a transport of BlazeRPC lets it be any
