"""The HTTP port that Vertex AI and SageMaker assign."""

import os

from inferstream.errors import InvalidSettings
from inferstream.ext.settings import ServerStart

PORTS = ("AIP_HTTP_PORT", "SAGEMAKER_BIND_TO_PORT")
"""Environment variables with the port to which Vertex AI and SageMaker send requests."""


def set_port(start: ServerStart) -> None:
    """Serve REST on the port that the platform assigns, unless a port is configured.

    Raises InvalidSettings.
    """
    port = next((value for name in PORTS if (value := os.environ.get(name))), None)
    if port is None:
        return
    if not port.isdecimal():
        raise InvalidSettings(f"environment: {' or '.join(PORTS)}: {port!r} is no port")
    # `--transport` of BlazeRPC may have set it to any free port.
    start.defaults.setdefault("http_port", int(port))
