"""Chat messages: checked, and made a prompt for models that take no messages."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from .fields import Fields, wrong_field
from .inputs import AUDIO, IMAGES, MESSAGES

ROLES = ("developer", "system", "user", "assistant", "tool", "function")
MOST_MESSAGES = 4096
"""Messages of one request at most."""


class Chat:
    """The messages of one request, with the images and sounds that they hold as bytes.

    `field` is the field of the request that holds the messages.
    """

    def __init__(self, field: str = "messages") -> None:
        self.field = field
        self.messages: list[dict[str, Any]] = []
        self.images: list[bytes] = []
        self.audio: list[bytes] = []

    def inputs(self, takes: Callable[[str], bool]) -> dict[str, Sequence[str | bytes]]:
        """The messages, images and sounds as inputs of a model, where `takes` says which inputs it declares.

        Raises InvalidRequest for images or sounds that it does not take.
        """
        inputs: dict[str, Sequence[str | bytes]] = {}
        if takes(MESSAGES):
            inputs[MESSAGES] = [orjson.dumps(self.messages).decode()]
        for name, values in ((IMAGES, self.images), (AUDIO, self.audio)):
            if values:
                if not takes(name):
                    raise wrong_field(self.field, f"the model takes no {name}")
                inputs[name] = values
        return inputs

    def read(self, item: Any, path: str) -> None:
        """Add the message at `path` of the request. Raises InvalidRequest that names what is wrong in it."""
        message = Fields(item, path)
        role = message.needed_choice("role", ROLES)
        content = message.get("content") if role == "assistant" else message.needed("content")
        read = dict(item)
        if content is not None:
            read["content"] = self.content(content, message.path("content"))
        self.messages.append(read)

    def content(self, content: Any, path: str) -> str | list[dict[str, Any]]:
        """A content without its images and sounds, which are added; the text alone where all parts are texts."""
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise wrong_field(path, "must be a string or a list of parts")
        parts = [self._part(Fields(item, f"{path}[{index}]")) for index, item in enumerate(content)]
        if all(part["type"] == "text" for part in parts):
            return "".join(part["text"] for part in parts)
        return parts

    def _part(self, part: Fields) -> dict[str, Any]:
        kind = part.needed_text("type")
        if kind in ("text", "input_text", "output_text"):
            return {"type": "text", "text": part.needed_text("text")}
        if kind == "refusal":
            return {"type": "text", "text": part.needed_text("refusal")}
        if kind in ("image_url", "input_image"):
            self.images.append(_image(part))
            return {"type": "image"}
        if kind == "input_audio":
            sound = part.needed_object("input_audio")
            self.audio.append(base64_bytes(sound.needed_text("data"), sound.path("data")))
            return {"type": "audio"}
        raise part.wrong("type", f"{kind[:40]!r} is not known; known are texts, images and input_audio")


def read_messages(fields: Fields) -> Chat:
    """The messages of a request. Raises InvalidRequest that names the wrong message or part."""
    chat = Chat()
    for index, item in enumerate(fields.needed_items(chat.field, "messages", MOST_MESSAGES)):
        chat.read(item, f"{chat.field}[{index}]")
    return chat


def _image(part: Fields) -> bytes:
    """The bytes of an image in a data URL (RFC 2397). The server fetches nothing."""
    value, path = part.needed("image_url"), part.path("image_url")
    url = value if isinstance(value, str) else Fields(value, path).needed_text("url")
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        raise wrong_field(path, "must be a data URL; the server fetches nothing")
    if not head.endswith(";base64"):
        raise wrong_field(path, "must be a data URL in base64")
    return base64_bytes(data, path)


def base64_bytes(data: str, path: str) -> bytes:
    """The bytes of base64 in a field. Raises InvalidRequest."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise wrong_field(path, "is not valid base64") from None


def plain_prompt(messages: Sequence[dict[str, Any]], _: str = "") -> str:
    """A prompt in the plain template: the text of a single message of a user as it is, else a line for each message.

    The lines are `role: text`, and the last one is `assistant:`.
    """
    if len(messages) == 1 and messages[0]["role"] == "user":
        return _text(messages[0])
    return "\n".join([*(f"{message['role']}: {_text(message)}" for message in messages), "assistant:"])


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
