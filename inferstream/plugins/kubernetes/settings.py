"""Settings of the load metrics for gateways and endpoint pickers."""

from typing import Literal

from pydantic import Field

from inferstream.ext.settings import Section


class KubernetesSettings(Section):
    """Settings of load reports."""

    metric_aliases: list[Literal["vllm", "sglang", "triton"]] = Field(default_factory=list)
    """Servers whose metric names are also used for the load metrics. Set this if your endpoint picker expects
    them."""

    load_reports: Literal["off", "asked", "always"] = "off"
    """ORCA load reports in the headers and trailers of inference responses: `asked` for clients that send
    `endpoint-load-metrics-format`, or `always`. Unless `off`, the gRPC port also serves OpenRcaService."""
