"""Items of recent responses, which clients name by their ids instead of sending them again."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import orjson

from .....dataplane.admission import Admission
from .states import names_of, without_ids

MOST_BYTES = 2**24
"""Bytes of all items together; the oldest leave first."""

OVERHEAD = 400
"""Bytes of an item beside its own."""


class RecentItems:
    """The items of the responses of this process, for the same client and model."""

    def __init__(self) -> None:
        self._items: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._size = 0

    def keep(self, admission: Admission, output: Sequence[dict[str, Any]]) -> None:
        for item in output:
            content = orjson.dumps(without_ids(item))
            self._items[*names_of(admission), item["id"]] = content
            self._size += len(content) + OVERHEAD
        while self._size > MOST_BYTES:
            self._size -= len(self._items.popitem(last=False)[1]) + OVERHEAD

    def recall(self, admission: Admission, id: str) -> Any:
        """An item by its id; None for one that is not there."""
        content = self._items.get((*names_of(admission), id))
        return None if content is None else orjson.loads(content)
