"""Settings of failover, which all language runtimes share."""

from typing import Literal

from pydantic import BaseModel, Field

Failover = Literal["off", "greedy", "always"]

MAX_MOVES = 2
"""Maximum number of engines or workers that may be lost during a request, because the request may be the cause."""

FAILOVER_TIMEOUT = "failover_timeout"
"""Parameter in the metadata of a model whose streams can continue: the time to wait for a worker, in seconds."""


class FailoverSettings(BaseModel):
    """A part of the schema of `parameters.extra`."""

    failover: Failover = "greedy"
    """Streams to continue after the loss of a worker or an engine: `greedy` for requests that are greedy or have
    a seed, `always` for sampled ones too, or `off`."""
    failover_timeout: float = Field(30.0, ge=0)
    """Seconds that a stream waits for another worker or engine."""
