"""Chat templates, of the settings and of a tokenizer."""

import json

import pytest

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest, ModelLoadFailed
from inferstream.text.chat import plain_prompt
from inferstream.text.template import chat_template, text_formats

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
USER = {"role": "user", "content": "hi"}


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
    assert render([{"role": "assistant", "content": None}, {"role": "assistant"}]) == "<<"
    for messages in ([{"role": "user", "content": [{"type": "image"}]}], [{"content": []}]):
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


def test_formats_of_calls_are_those_of_the_settings_else_of_the_template(tmp_path):
    assert text_formats(settings(tmp_path)) == (None, None)
    (tmp_path / "chat_template.jinja").write_text("<tool_call> <think>")
    assert text_formats(settings(tmp_path)) == ("hermes", "think")
    own = settings(tmp_path, tool_format="llama", reasoning_format="none")
    assert text_formats(own) == ("llama", "none")
    runtimes = settings(tmp_path, parameters={"extra": {"chat_template": "[TOOL_CALLS]"}})
    assert text_formats(runtimes) == ("mistral", None)
