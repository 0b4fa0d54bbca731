"""The text generation of the reference server."""

from collections.abc import Iterator
from typing import Any

from engine import Engine, Refusal

PARAMETERS = {
    "temperature": lambda value: type(value) in (int, float) and value >= 0,
    "top_p": lambda value: type(value) in (int, float) and 0 <= value <= 1,
    "max_tokens": lambda value: type(value) is int and value >= 1,
    "stop": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "details": lambda value: isinstance(value, bool),
}
"""What is a valid value of each parameter."""


class Generation:
    """One text. `reason` is why it ended."""

    def __init__(self, engine: Engine, name: str, document: dict[str, Any]) -> None:
        text, parameters = document.get("text_input"), document.get("parameters", {})
        if not isinstance(text, str) or not isinstance(parameters, dict):
            raise Refusal(422, "text_input is a string, and parameters are an object")
        for parameter, value in parameters.items():
            if parameter in PARAMETERS and not PARAMETERS[parameter](value):
                raise Refusal(422, f"{parameter} is invalid")
        self._wrong = engine.wrong
        self._words = text.split()
        self._most = parameters.get("max_tokens", 100 if "no-default-limit" in self._wrong else 20)
        self._stop = parameters.get("stop", [])
        self._detailed = parameters.get("details", False) or "always-detailed" in self._wrong
        self._head = {"model_name": name, "model_version": "1"}
        self._tokens: list[dict[str, Any]] = []
        self._reason = ""

    def whole(self) -> dict[str, Any]:
        text = "".join(self._pieces())
        details = {"finish_reason": self._reason, "logprobs": self._tokens}
        return {**self._head, "text_output": text, **({"details": details} if self._detailed else {})}

    def events(self) -> Iterator[dict[str, Any]]:
        try:
            for piece in self._pieces():
                details = {"finish_reason": self._reason, "token": self._tokens[-1]}
                ended = {"details": details} if self._detailed and self._reason else {}
                yield {**self._head, "text_output": piece, **ended}
        except Refusal as refusal:
            yield {"error": str(refusal)}

    def check_first(self) -> None:
        """Raise Refusal if the text cannot begin."""
        if self._words[:1] == ["!fail"]:
            raise Refusal(424, "the model failed")

    def _pieces(self) -> Iterator[str]:
        for number, word in enumerate(self._words):
            if word == "!fail":
                raise Refusal(424, "the model failed")
            if word in self._stop and "stop-ignored" not in self._wrong:
                self._reason = "stop_sequence"
                return
            text = f" {word}" if number else word
            self._tokens.append({"id": number, "text": text, "logprob": -0.5, "special": False})
            if number + 1 == self._most and "limit-ignored" not in self._wrong:
                self._reason = "length"
            yield text
            if self._reason:
                return
        self._reason = "eos_token"
