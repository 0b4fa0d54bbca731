import base64
import json

import pytest

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest, ModelLoadFailed
from inferstream.text.chat import plain_prompt, read_messages
from inferstream.text.fields import Fields
from inferstream.text.template import chat_template

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
USER = {"role": "user", "content": "hi"}


def read(*messages):
    return read_messages(Fields({"messages": list(messages)}))


def test_one_message_of_a_user_is_the_prompt():
    assert plain_prompt(read(USER).messages) == "hi"


def test_a_conversation_is_a_line_for_each_message():
    messages = read({"role": "system", "content": "Be kind."}, USER).messages
    assert plain_prompt(messages) == "system: Be kind.\nuser: hi\nassistant:"


def test_parts_of_text_are_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read({"role": "user", "content": parts}).messages == [{"role": "user", "content": "ab"}]


def test_images_and_sounds_are_bytes():
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
def test_a_wrong_message_is_named(message, path):
    with pytest.raises(InvalidRequest) as error:
        read(message)
    assert error.value.detail[0]["loc"] == [path]


def test_messages_are_needed():
    for fields in ({}, {"messages": []}, {"messages": "hi"}):
        with pytest.raises(InvalidRequest, match="messages"):
            read_messages(Fields(fields))


def settings(folder, **values):
    path = folder / "model-settings.json"
    path.write_text("{}")
    return ModelSettings(implementation="m.M", name="m", _source=str(path), **values)


def test_a_template_of_the_settings(tmp_path):
    render = chat_template(settings(tmp_path, chat_template=TEMPLATE))
    assert render([USER]) == "<user>hi>"
    (tmp_path / "chat.jinja").write_text("file {{ messages[0].content }}")
    assert chat_template(settings(tmp_path, chat_template="chat.jinja"))([USER]) == "file hi"


def test_messages_that_a_template_cannot_take_are_refused(tmp_path):
    render = chat_template(
        settings(tmp_path, chat_template="{% for m in messages %}{{ '<' + m.content }}{% endfor %}")
    )
    for messages in ([{"role": "assistant", "content": None}], [{"role": "assistant"}], [{"content": []}]):
        with pytest.raises(InvalidRequest, match="messages: the chat template refuses them"):
            render(messages)


def test_messages_are_no_templates(tmp_path):
    render = chat_template(settings(tmp_path, chat_template=TEMPLATE))
    assert (
        render([{"role": "user", "content": "{{ messages }}{% raw %}"}]) == "<user>{{ messages }}{% raw %}>"
    )


def test_a_template_may_write_the_date(tmp_path):
    render = chat_template(settings(tmp_path, chat_template="{{ strftime_now('%Y') }}"))
    assert render([USER]).isdigit()


def test_a_template_file_that_is_no_text_fails_the_load(tmp_path):
    (tmp_path / "chat.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelLoadFailed, match="chat_template"):
        chat_template(settings(tmp_path, chat_template="chat.jinja"))


def test_the_template_of_a_tokenizer_in_the_folder(tmp_path):
    document = {"chat_template": "{{ bos_token }}" + TEMPLATE, "bos_token": {"content": "<s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(document))
    assert chat_template(settings(tmp_path))([USER]) == "<s><user>hi>"
    (tmp_path / "chat_template.jinja").write_text("own")
    assert chat_template(settings(tmp_path))([USER]) == "own"


def test_without_a_template_the_prompt_is_plain(tmp_path):
    assert chat_template(settings(tmp_path)) is plain_prompt
    (tmp_path / "tokenizer_config.json").write_text("{no json")
    assert chat_template(settings(tmp_path)) is plain_prompt


def test_a_template_that_refuses_messages_is_a_wrong_request(tmp_path):
    render = chat_template(settings(tmp_path, chat_template="{{ raise_exception('no system role') }}"))
    with pytest.raises(InvalidRequest, match="no system role"):
        render([USER])


def test_a_template_can_do_nothing_but_write(tmp_path):
    render = chat_template(settings(tmp_path, chat_template="{{ ''.__class__.__mro__ }}"))
    with pytest.raises(InvalidRequest, match="unsafe"):
        render([USER])


def test_a_broken_template_of_the_settings_fails_the_load(tmp_path):
    with pytest.raises(ModelLoadFailed, match="chat_template"):
        chat_template(settings(tmp_path, chat_template="{% if %}"))
