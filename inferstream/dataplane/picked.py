"""What the endpoint picker of a gateway says of a request."""

from math import isfinite
from typing import NamedTuple, Self

from ..types import Headers


class Picked(NamedTuple):
    """Headers of the Gateway API Inference Extension and llm-d. The picker has acted on them before."""

    objective: str | None = None
    """The name of the InferenceObjective, whose priority only the picker knows."""
    fairness_id: str | None = None
    """Whose request it is, for fair shares."""
    first_item_within: float | None = None
    """Seconds to the first token that are wanted."""
    between_items: float | None = None
    """Seconds from one token to the next that are wanted."""

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
