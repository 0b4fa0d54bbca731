"""Settings of what gateways and endpoint pickers read."""

from typing import Literal

from pydantic import Field

from inferstream.ext.settings import Section


class KubernetesSettings(Section):
    """How the load of the server is reported."""

    metric_aliases: list[Literal["vllm", "sglang", "triton"]] = Field(default_factory=list)
    """Further names of the totals of the load, which endpoint pickers read: those of these servers."""

    load_reports: Literal["off", "asked", "always"] = "off"
    """ORCA reports of the load in the headers and trailers of inferences: for clients that ask with
    `endpoint-load-metrics-format`, or always. With both, gRPC has the service OpenRcaService."""
