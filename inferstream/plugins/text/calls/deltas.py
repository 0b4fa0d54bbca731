"""`CallDeltas`: tool call deltas that OpenAI clients can merge."""

from secrets import token_hex
from typing import Any

import orjson

from inferstream.errors import InvalidOutput

ARGUMENTS = ("arguments", "parameters", "args", "input")


class CallDeltas:
    """Collects tool call deltas in `pending`, at most one per call until the consumer clears the list.

    The first delta of a call has its ID and name. The concatenated arguments are a JSON object. Calls are
    matched by the index or ID from the model.
    """

    __slots__ = ("_bare", "_ids", "_numbers", "_pending")

    def __init__(self, pending: list[dict[str, Any]]) -> None:
        self._pending = pending
        self._ids: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._bare: set[int] = set()

    def add(self, piece: Any) -> None:
        """Add a complete call or a part of one, with or without an index, an ID or a `function` object.

        The arguments may have any of the names in `ARGUMENTS`, which differ between libraries. Raises
        InvalidOutput.
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
        self.append_arguments(
            number, arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        )

    def begin(self, name: str, id: Any = None) -> int:
        """Start a call and return its number. An ID that another call already uses is replaced."""
        number = len(self._ids)
        id = None if id in self._ids else id
        self._ids.append(id)
        self._bare.add(number)
        # Nine letters and digits, because Mistral templates accept no other IDs.
        call = {"index": number, "id": str(id or token_hex(5)[:9]), "type": "function"}
        self._pending.append({**call, "function": {"name": name, "arguments": ""}})
        return number

    def append_arguments(self, number: int, text: str) -> None:
        """Append to the arguments of a call."""
        if not text:
            return
        self._bare.discard(number)
        for piece in reversed(self._pending):
            if piece["index"] == number:
                piece["function"]["arguments"] += text
                return
        self._pending.append({"index": number, "function": {"arguments": text}})

    def end(self) -> None:
        """Add an empty object to calls without arguments, because clients parse them as JSON."""
        for number in sorted(self._bare):
            self.append_arguments(number, "{}")
