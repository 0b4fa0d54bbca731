"""The route that lists the keys with their limits and usage. It never contains a secret."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, cast

import msgspec

from inferstream.ext.calls import Action, Caller
from inferstream.ext.http import Answer, AsgiScope, HttpDialect, ReadClaim, ReadRoute, json_answer

from .access_control import has_keys
from .authority import KeyAuthority
from .errors import LimitExceeded
from .principal import Principal
from .quotas import Quotas
from .settings import KeysSettings
from .usage import DayOfKey, read_today

PATH = "/v2/keys"

NO_USE = DayOfKey("")


class KeyList(HttpDialect):
    """Lists the keys and certificate subjects of the keys file, for keys with the scope `metrics`."""

    name = "keys"

    def reads(self) -> Sequence[ReadClaim]:
        return [ReadClaim(PATH, Action.METRICS, self._list)] if has_keys(self._settings) else []

    async def _list(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """Return each key with its limits, what is left of them, and its usage today if a usage file is set."""
        keys = cast(KeyAuthority, self._dataplane.access).keys
        file = self._settings.section(KeysSettings).usage_file
        today = await asyncio.to_thread(read_today, Path(file)) if file else {}
        listed = [_describe(keys.quotas, principal) for principal in keys.principals()]
        if file:
            listed = [each | {"today": msgspec.to_builtins(today.get(each["id"], NO_USE))} for each in listed]
        return json_answer({"keys": listed})


def _describe(quotas: Quotas, principal: Principal) -> dict[str, Any]:
    left: dict[str, int] = {}
    with suppress(LimitExceeded):  # there are more principals than counters
        left = quotas.left(principal)
    return {
        "id": principal.key,
        "principal": principal.name,
        "scopes": sorted(scope for scope in principal.scopes if scope is not None),
        "expires": None if principal.expires == inf else principal.expires,
        "limits": {} if principal.limits is None else msgspec.to_builtins(principal.limits),
        "left": left,
    }
