"""Chat messages: checked, and made a prompt for models that take no messages."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from .fields import Fields, wrong_field
from .inputs import AUDIO, IMAGES, MESSAGES

ROLES = ("developer", "system", "user", "assistant", "tool", "function")
MOST_MESSAGES = 4096


class Chat:
    """The messages of one request, with the images and sounds that they hold as bytes."""

    def __init__(self, messages: list[dict[str, Any]], images: list[bytes], audio: list[bytes]) -> None:
        self.messages = messages
        self.images = images
        self.audio = audio

    def inputs(self, takes: Callable[[str], bool]) -> dict[str, Sequence[str | bytes]]:
        """The messages, images and sounds as inputs of a model, where `takes` says which inputs it declares.

        Raises InvalidRequest for images or sounds that it does not take.
        """
        found: dict[str, Sequence[str | bytes]] = {}
        if takes(MESSAGES):
            found[MESSAGES] = [orjson.dumps(self.messages).decode()]
        for name, values in ((IMAGES, self.images), (AUDIO, self.audio)):
            if values:
                if not takes(name):
                    raise wrong_field("messages", f"the model takes no {name}")
                found[name] = values
        return found


def read_messages(fields: Fields, name: str = "messages") -> Chat:
    """The messages of a request. Raises InvalidRequest that names the wrong message or part."""
    found = fields.items(name)
    if not found:
        raise fields.wrong(name, "is missing" if found is None else "must not be empty")
    if len(found) > MOST_MESSAGES:
        raise fields.wrong(name, f"holds {len(found)} messages, at most {MOST_MESSAGES} are allowed")
    chat = Chat([], [], [])
    for index, item in enumerate(found):
        message = Fields(item, f"{name}[{index}]")
        role = message.choice("role", ROLES)
        if role is None:
            raise message.wrong("role", "is missing")
        content = message.get("content")
        if content is None and role != "assistant":
            raise message.wrong("content", "is missing")
        read = dict(item)
        if isinstance(content, list):
            read["content"] = _parts(content, message.path("content"), chat)
        elif content is not None and not isinstance(content, str):
            raise message.wrong("content", "must be a string or a list of parts")
        chat.messages.append(read)
    return chat


def _parts(parts: list[Any], path: str, chat: Chat) -> str | list[dict[str, Any]]:
    """The parts of a content; the text alone where all are texts."""
    found: list[dict[str, Any]] = []
    for index, item in enumerate(parts):
        part = Fields(item, f"{path}[{index}]")
        kind = part.needed_text("type")
        if kind in ("text", "input_text", "output_text"):
            found.append({"type": "text", "text": part.needed_text("text")})
        elif kind == "refusal":
            found.append({"type": "text", "text": part.needed_text("refusal")})
        elif kind in ("image_url", "input_image"):
            chat.images.append(_image(part))
            found.append({"type": "image"})
        elif kind == "input_audio":
            sound = part.object("input_audio")
            if sound is None:
                raise part.wrong("input_audio", "is missing")
            chat.audio.append(_base64(sound.needed_text("data"), sound.path("data")))
            found.append({"type": "audio"})
        else:
            raise part.wrong("type", f"{kind[:40]!r} is not known; known are text, image_url and input_audio")
    if all(part["type"] == "text" for part in found):
        return "".join(part["text"] for part in found)
    return found


def _image(part: Fields) -> bytes:
    """The bytes of an image in a data URL (RFC 2397). The server fetches nothing."""
    value = part.get("image_url")
    url = value if isinstance(value, str) else Fields(value, part.path("image_url")).needed_text("url")
    path = part.path("image_url")
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        raise wrong_field(path, "must be a data URL; the server fetches nothing")
    if not head.endswith(";base64"):
        raise wrong_field(path, "must be a data URL in base64")
    return _base64(data, path)


def _base64(data: str, path: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise wrong_field(path, "is not valid base64") from None


def plain_prompt(messages: Sequence[dict[str, Any]]) -> str:
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
