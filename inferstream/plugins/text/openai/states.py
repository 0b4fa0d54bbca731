"""Conversations encrypted into response IDs, and recent items that clients reference by ID."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from inferstream.errors import InvalidRequest
from inferstream.ext.calls import Admission

from ..fields import Fields
from .response_items import INPUT, PREVIOUS

if TYPE_CHECKING:
    from ..sealing import Seal

PREFIX = "resp_"

MAX_BYTES = 2**24
"""Maximum total size of all recent items in bytes."""

OVERHEAD = 400
"""Estimated bytes of memory per recent item in addition to its content."""

LARGE = f"{PREFIX}large_"
"""Prefix of the ID if the conversation is too large for an ID."""

ITEM = ("type", "call_id", "name", "namespace", "arguments", "input")
"""Fields of a call that are part of its conversation."""

NO_KEYS = (
    "responses are not stored; send the items of the conversation as input. With the setting state_key_file, and the "
    "extra state, ids hold the conversation"
)
TOO_LARGE = "the conversation is larger than the 256 KB that an id may hold; send its items as input"
UNOPENED = (
    "opens no conversation; the id of a response does so for 30 days, for the same client and model, unless store is "
    "false; that of a stream needs store: true, and comes with its last event"
)


class UnopenedState(InvalidRequest):
    """An unknown or expired `previous_response_id`."""

    @classmethod
    def of(cls, fields: Fields, sentence: str) -> "UnopenedState":
        error = fields.wrong(PREVIOUS, sentence)
        return cls(error.message, error.detail)


class SealedStates:
    """Reads and writes encrypted conversations. Without a key file, no conversations are stored."""

    def __init__(self, key_file: str | None) -> None:
        """Raises InvalidSettings or MissingExtra."""
        self._seal: Seal | None = None
        if key_file is not None:
            from .. import sealing  # Imported lazily: it requires an extra.

            self._seal = sealing.Seal(key_file)

    def open_previous(self, fields: Fields, admission: Admission) -> list[Any]:
        """Return the items of the conversation that a request continues. Raises InvalidRequest."""
        if (id := fields.text(PREVIOUS)) is None:
            return []
        if self._seal is None:
            raise fields.wrong(PREVIOUS, NO_KEYS)
        if id.startswith(LARGE):
            raise UnopenedState.of(fields, TOO_LARGE)
        sealed = id.removeprefix(PREFIX) if id.startswith(PREFIX) else ""
        if (content := self._seal.open(sealed, _names(admission))) is None:
            raise UnopenedState.of(fields, UNOPENED)
        items, answer = orjson.loads(content)
        return [*items, *answer]

    def seal_conversation(
        self, fields: Fields, admission: Admission, previous: Sequence[Any]
    ) -> "SealedConversation | None":
        """Return the conversation to encrypt into the response ID, or None if it is not stored.

        Requests are stored by default, as in OpenAI, but streams only with `store: true`, because their
        final ID is known only at the end, and `responses.stream` of the OpenAI client rejects an ID change.
        """
        stored, streamed = fields.flag("store"), fields.flag("stream")
        if self._seal is None or not (stored or (fields.get("store") is None and not streamed)):
            return None
        asked = fields.get(INPUT)
        items = asked if isinstance(asked, list) else [{"role": "user", "content": asked}]
        said = [item for item in items if item.get("type") != "reasoning"]  # reasoning is not part of a chat
        return SealedConversation(self._seal, _names(admission), orjson.dumps([*previous, *said]))


class SealedConversation:
    """The items of a conversation up to its response. They are dropped if they are too large for an ID."""

    def __init__(self, seal: "Seal", names: Sequence[str | None], items: bytes) -> None:
        self._seal = seal
        self._names = names
        self._items = items if seal.fits(items) else None

    def seal(self, id: str, output: Sequence[dict[str, Any]]) -> tuple[str, bool]:
        """Return the ID for a response with this output, and whether it contains the conversation."""
        sealed = None
        if self._items is not None:
            answer = orjson.dumps([_item(each) for each in output if each["type"] != "reasoning"])
            sealed = self._seal.seal(b"[%b,%b]" % (self._items, answer), self._names)
        return (LARGE + id, False) if sealed is None else (PREFIX + sealed, True)


class RecentItems:
    """Recent output items of this process. The same client can pass their IDs to the same model."""

    def __init__(self) -> None:
        self._items: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._size = 0

    def add_items(self, admission: Admission, output: Sequence[dict[str, Any]]) -> None:
        """Add the items of a response. The oldest items are dropped at the size limit."""
        for item in output:
            content = orjson.dumps(_item(item))
            self._items[*_names(admission), item["id"]] = content
            self._size += len(content) + OVERHEAD
        while self._size > MAX_BYTES:
            self._size -= len(self._items.popitem(last=False)[1]) + OVERHEAD

    def recall(self, admission: Admission, id: str) -> Any:
        """Return an item by its ID, or None."""
        content = self._items.get((*_names(admission), id))
        return None if content is None else orjson.loads(content)


def _names(admission: Admission) -> Sequence[str | None]:
    """Return the prefix of a caller's keys. It does not include the model version."""
    return ("response", admission.model, admission.caller.principal)


def _item(output: dict[str, Any]) -> dict[str, Any]:
    """Return an output item as an input item, with only the fields that are read again."""
    if output["type"] == "message":
        return {"role": output["role"], "content": output["content"][0]["text"]}
    return {name: output[name] for name in ITEM if name in output}
