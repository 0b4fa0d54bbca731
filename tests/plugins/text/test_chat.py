"""None"""

import base64
import json

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.text.chat import build_plain_prompt, read_messages
from inferstream.plugins.text.fields import Fields

USER = {"role": "user", "content": "hi"}


def read(*messages):
    return read_messages(Fields({"messages": list(messages)}))


def test_single_user_message_is_the_prompt():
    assert build_plain_prompt(read(USER).messages) == "hi"


def test_conversation_has_one_line_per_message():
    messages = read({"role": "system", "content": "Be kind."}, USER).messages
    assert build_plain_prompt(messages) == "system: Be kind.\nuser: hi\nassistant:"


def test_text_parts_are_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read({"role": "user", "content": parts}).messages == [{"role": "user", "content": "ab"}]


def test_images_and_audio_are_bytes():
    image = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"png").decode()},
    }
    sound = {
        "type": "input_audio",
        "input_audio": {"data": base64.b64encode(b"wav").decode(), "format": "wav"},
    }
    chat = read({"role": "user", "content": [{"type": "text", "text": "see"}, image, sound]})
    assert (chat.images, chat.audio) == ([b"png"], [b"wav"])
    assert chat.messages[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image"},
        {"type": "audio"},
    ]
    taken = chat.inputs(lambda name: True)
    assert json.loads(taken["messages"][0]) == chat.messages
    with pytest.raises(InvalidRequest, match="takes no images"):
        chat.inputs(lambda name: name == "messages")


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("hi", "messages[0]"),
        ({"content": "hi"}, "messages[0].role"),
        ({"role": "boss", "content": "hi"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        ({"role": "user", "content": [{"type": "video"}]}, "messages[0].content[0].type"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]},
            "messages[0].content[0].image_url",
        ),
        (
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,%"}}],
            },
            "messages[0].content[0].image_url",
        ),
    ],
)
def test_invalid_message_is_named(message, path):
    with pytest.raises(InvalidRequest) as error:
        read(message)
    assert error.value.detail[0]["loc"] == [path]


def test_messages_are_required():
    for fields in ({}, {"messages": []}, {"messages": "hi"}):
        with pytest.raises(InvalidRequest, match="messages"):
            read_messages(Fields(fields))
