"""`Caller`: who makes a request, in which dialect, how urgently, and what a gateway says of it."""

import asyncio
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, Self

from ..keys.credentials import split
from ..types import Headers

if TYPE_CHECKING:
    from weakref import ref

    from ..errors import InferstreamError
    from ..keys.credentials import Shown
    from ..keys.principal import Principal


DOORS: set[str] = set()
"""The dialects of doors beside the ports. No client waits for the responses to their calls."""


class Picked(NamedTuple):
    """Headers of the Gateway API Inference Extension and llm-d, of a trusted proxy."""

    objective: str | None = None
    """The name of the InferenceObjective, whose priority the setting `objectives` has here."""
    fairness_id: str | None = None
    """Whose request it is, for the shares of a model: it takes the place of the principal's name there."""
    first_item_within: float | None = None
    """Seconds to the first token that are wanted."""
    between_items: float | None = None
    """Seconds from one token to the next that are wanted."""
    priority: int = 0
    """That of its objective; 0 where the settings name none."""

    @classmethod
    def of(cls, headers: Headers) -> Self | None:
        """The headers of a picker, by their new or old names; None without any."""
        said = cls(
            headers.get("x-llm-d-inference-objective") or headers.get("x-gateway-inference-objective"),
            headers.get("x-llm-d-inference-fairness-id") or headers.get("x-gateway-inference-fairness-id"),
            _seconds(headers.get("x-llm-d-slo-ttft-ms")),
            _seconds(headers.get("x-llm-d-slo-tpot-ms")),
        )
        return said if any(said) else None


def _seconds(milliseconds: str | None) -> float | None:
    """The value of a header; None for one that is no positive number, because the picker has accepted it."""
    try:
        seconds = float(milliseconds or "") / 1000
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None


@dataclass(slots=True)
class Caller:
    """The client of one request, or of one stream or connection where its requests have that in common.

    A transport makes it before it reads a body. `headers` decode when they are read, and know the client's address
    and certificate. `deadline` is a time on the event loop's clock, in seconds. `priority` is 1 (highest) to 9
    (lowest), and 0 for the model's default. `pace` is the least time in seconds between two responses of a stream.
    `task` opens the calls; None for the current task at that time.
    """

    headers: Headers
    dialect: str
    task: asyncio.Task[object] | None = None
    shown: "Shown | None" = None
    """Its headers that may hold a key, which `headers` do not have then. None where they may have them."""
    deadline: float | None = None
    priority: int = 0
    pace: float = 0.0
    principal: str | None = None
    """The name of the client; None where nothing has proved one. Only `Access` sets it."""
    picked: Picked | None = None
    """What a trusted gateway says of the request. Only `DataPlane.admit` sets it."""
    key: "Principal | None" = None
    """What the key of the client allows; None where the server asks for none. Only `Access` sets it."""
    told: "ref[InferstreamError] | None" = None
    """The last error of which the audit log has a line for this client. Only `Metering` sets it."""

    @property
    def peer(self) -> str:
        """The address of the client in gRPC's form; empty where the transport does not know it."""
        return self.headers.peer or ""

    @property
    def door(self) -> str:
        """The transport: `grpc`, `websocket`, `http`, or the name of a door beside the ports."""
        return self.dialect if self.dialect in ("grpc", "websocket") or self.dialect in DOORS else "http"

    def hide_keys(self) -> "Shown":
        """Take the headers that may hold a key out of `headers`, which middleware and model get."""
        public, shown = split(self.headers.raw)
        self.headers, self.shown = Headers(public, None, self.headers.origin), shown
        return shown

    def sees(self, model: str) -> bool:
        """Whether lists of models name this one to the client."""
        return self.key is None or self.key.sees(model)

    def until(self, deadline: float) -> "Caller":
        """The same client with a deadline of its own, for one request of a connection."""
        return replace(self, deadline=deadline)
