"""Suggestions for unknown names, for error messages."""

import difflib
from collections.abc import Iterable, Mapping

MEANINGS: Mapping[str, str] = {
    "grpc": "grpc_port",
    "http": "http_port",
    "log_json": "use_structured_logging",
    "max_batch": "max_batch_size",
    "metrics": "metrics_port",
    "num_workers": "parallel_workers",
    "port": "http_port",
    "rest_port": "http_port",
    "workers": "parallel_workers",
}
"""Names of flags and of other servers' settings, and the equivalent setting."""

WITHOUT_EFFECT = ("warm_workers",)
"""Model settings of MLServer that are accepted but have no effect."""

MAX_ADDED = 2
"""Maximum number of letters that a typo adds or omits. Whole words are longer."""


def suggest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that the user probably meant: an equivalent one, or one with a similar spelling.

    A name with an additional word, such as `spare_workers` for `workers`, has another meaning and is never
    suggested. `cutoff` is the minimum similarity of the spelling.
    """
    names = {each.lower(): each for each in known}
    if (meant := names.get(MEANINGS.get(name.lower(), ""))) is not None:
        return meant
    letters = len(name.replace("_", ""))
    alike = [
        each
        for each in names
        if each not in WITHOUT_EFFECT and abs(len(each.replace("_", "")) - letters) <= MAX_ADDED
    ]
    close = difflib.get_close_matches(name.lower(), alike, n=1, cutoff=cutoff)
    return names[close[0]] if close else None
