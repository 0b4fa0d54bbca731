"""`CallDeltas`: tool calls in pieces, as clients of OpenAI's streams merge them."""

from secrets import token_hex
from typing import Any

import orjson

from ...errors import InvalidOutput

ARGUMENTS = ("arguments", "parameters", "args", "input")


class CallDeltas:
    """Makes at most one delta for each call, until somebody takes those in `pending`.

    The first delta of a call has its id and name. The arguments are text that is a JSON object at the end.
    It remembers the ids that the model gave, the numbers of calls by the model's own index or id, and the calls that
    are bare of arguments so far.
    """

    __slots__ = ("_bare", "_ids", "_numbers", "_pending")

    def __init__(self, pending: list[dict[str, Any]]) -> None:
        self._pending = pending
        self._ids: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._bare: set[int] = set()

    def add(self, piece: Any) -> None:
        """Take a whole call or a piece of one from a model, with or without an index, id or `function` around it.

        Libraries have different words for the arguments.

        Raises InvalidOutput.
        """
        function = piece.get("function") or piece if isinstance(piece, dict) else None
        if not isinstance(function, dict):
            raise InvalidOutput("A tool call of the model is not an object with a name and arguments.")
        id, name, index = piece.get("id"), str(function.get("name") or ""), piece.get("index")
        key = id if index is None else index
        number = None if key is None else self._numbers.get(str(key))
        if number is None and self._ids and not name:
            number = len(self._ids) - 1
        if number is None or (name and id not in (None, self._ids[number])):
            number = self._numbers[str(key)] = self.begin(name, id)
        arguments = next((function[key] for key in ARGUMENTS if key in function), None) or ""
        self.argue(number, arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode())

    def begin(self, name: str, id: Any = None) -> int:
        """Begin a call; returns its number. An id that another call has is not taken."""
        number = len(self._ids)
        id = None if id in self._ids else id
        self._ids.append(id)
        self._bare.add(number)
        # Nine letters and digits, because templates of Mistral take no other ids.
        call = {"index": number, "id": str(id or token_hex(5)[:9]), "type": "function"}
        self._pending.append({**call, "function": {"name": name, "arguments": ""}})
        return number

    def argue(self, number: int, text: str) -> None:
        """Add text to the arguments of a call."""
        if not text:
            return
        self._bare.discard(number)
        for piece in reversed(self._pending):
            if piece["index"] == number:
                piece["function"]["arguments"] += text
                return
        self._pending.append({"index": number, "function": {"arguments": text}})

    def end(self) -> None:
        """Give an empty object to calls without arguments, because clients parse what they get."""
        for number in sorted(self._bare):
            self.argue(number, "{}")
