"""Conversations that are sealed into the ids of their responses, and recent items, which clients name by their ids."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from inferstream.ext.calls import Admission

from .....errors import InvalidRequest
from .....text.fields import Fields
from .response_items import INPUT, PREVIOUS

if TYPE_CHECKING:
    from .....keys.sealing import Seal

PREFIX = "resp_"

MOST_BYTES = 2**24
"""Bytes of all recent items."""

OVERHEAD = 400
"""Bytes of a recent item beside its own."""

LARGE = f"{PREFIX}large_"
"""How the id begins of a response whose conversation is larger than an id may be."""

ITEM = ("type", "call_id", "name", "namespace", "arguments", "input")
"""Fields of a call that belong to its conversation."""

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
    """A previous response that this server cannot know."""

    @classmethod
    def of(cls, fields: Fields, sentence: str) -> "UnopenedState":
        error = fields.wrong(PREVIOUS, sentence)
        return cls(error.message, error.detail)


class SealedStates:
    """Reads and writes the conversations of a server; of none that has no file of keys."""

    def __init__(self, key_file: str | None) -> None:
        """Raises InvalidSettings, MissingExtra."""
        self._seal: Seal | None = None
        if key_file is not None:
            from .....keys import sealing  # late: it needs an extra

            self._seal = sealing.Seal(key_file)

    def previous(self, fields: Fields, admission: Admission) -> list[Any]:
        """The items of the conversation that a request goes on with. Raises InvalidRequest."""
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

    def kept(
        self, fields: Fields, admission: Admission, previous: Sequence[Any]
    ) -> "SealedConversation | None":
        """The conversation with this request, if the client wants to go on with it, as OpenAI's do by default.

        The id of a stream would be known at its end alone. OpenAI's `responses.stream` refuses one that changes, so
        that the client has to ask for it.
        """
        stored, streamed = fields.flag("store"), fields.flag("stream")
        if self._seal is None or not (stored or (fields.get("store") is None and not streamed)):
            return None
        asked = fields.get(INPUT)
        items = asked if isinstance(asked, list) else [{"role": "user", "content": asked}]
        said = [item for item in items if item.get("type") != "reasoning"]  # which is no part of a chat
        return SealedConversation(self._seal, _names(admission), orjson.dumps([*previous, *said]))


class SealedConversation:
    """A conversation up to a response: a list of items, of which none is kept that is too large for an id."""

    def __init__(self, seal: "Seal", names: Sequence[str | None], items: bytes) -> None:
        self._seal = seal
        self._names = names
        self._items = items if seal.takes(items) else None

    def ended(self, id: str, output: Sequence[dict[str, Any]]) -> tuple[str, bool]:
        """The id of the response with this output, and whether it holds the conversation."""
        sealed = None
        if self._items is not None:
            answer = orjson.dumps([_item(each) for each in output if each["type"] != "reasoning"])
            sealed = self._seal.seal(b"[%b,%b]" % (self._items, answer), self._names)
        return (LARGE + id, False) if sealed is None else (PREFIX + sealed, True)


class RecentItems:
    """The items of the responses of this process, for the same client and model."""

    def __init__(self) -> None:
        self._items: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._size = 0

    def keep(self, admission: Admission, output: Sequence[dict[str, Any]]) -> None:
        """Keep the items of a response; the oldest leave first."""
        for item in output:
            content = orjson.dumps(_item(item))
            self._items[*_names(admission), item["id"]] = content
            self._size += len(content) + OVERHEAD
        while self._size > MOST_BYTES:
            self._size -= len(self._items.popitem(last=False)[1]) + OVERHEAD

    def recall(self, admission: Admission, id: str) -> Any:
        """An item by its id; None for one that is not there."""
        content = self._items.get((*_names(admission), id))
        return None if content is None else orjson.loads(content)


def _names(admission: Admission) -> Sequence[str | None]:
    """What a conversation belongs to, whatever the version of the model."""
    return ("response", admission.model, admission.caller.principal)


def _item(output: dict[str, Any]) -> dict[str, Any]:
    """An item of a response as one of an input, without what nobody reads again."""
    if output["type"] == "message":
        return {"role": output["role"], "content": output["content"][0]["text"]}
    return {name: output[name] for name in ITEM if name in output}
