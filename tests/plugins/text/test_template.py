"""Chat templates, of the settings and of a tokenizer."""

import json

import pytest

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest, ModelLoadFailed
from inferstream.plugins.text.chat import build_plain_prompt
from inferstream.plugins.text.template import find_formats, load_chat_template

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
USER = {"role": "user", "content": "hi"}


def settings(folder, **values):
    path = folder / "model-settings.json"
    path.write_text("{}")
    return ModelSettings(implementation="m.M", name="m", _source=str(path), **values)


def test_settings_template(tmp_path):
    render = load_chat_template(settings(tmp_path, chat_template=TEMPLATE))
    assert render([USER]) == "<user>hi>"
    (tmp_path / "chat.jinja").write_text("file {{ messages[0].content }}")
    assert load_chat_template(settings(tmp_path, chat_template="chat.jinja"))([USER]) == "file hi"


def test_messages_unsupported_by_template_are_refused(tmp_path):
    render = load_chat_template(
        settings(tmp_path, chat_template="{% for m in messages %}{{ '<' + m.content }}{% endfor %}")
    )
    assert render([{"role": "assistant", "content": None}, {"role": "assistant"}]) == "<<"
    for messages in ([{"role": "user", "content": [{"type": "image"}]}], [{"content": []}]):
        with pytest.raises(InvalidRequest, match="messages: the chat template refuses them"):
            render(messages)


def test_messages_are_not_templates(tmp_path):
    render = load_chat_template(settings(tmp_path, chat_template=TEMPLATE))
    assert (
        render([{"role": "user", "content": "{{ messages }}{% raw %}"}]) == "<user>{{ messages }}{% raw %}>"
    )


def test_template_can_render_date(tmp_path):
    render = load_chat_template(settings(tmp_path, chat_template="{{ strftime_now('%Y') }}"))
    assert render([USER]).isdigit()


def test_non_text_template_file_fails_load(tmp_path):
    (tmp_path / "chat.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelLoadFailed, match="chat_template"):
        load_chat_template(settings(tmp_path, chat_template="chat.jinja"))


def test_tokenizer_template_of_folder(tmp_path):
    document = {"chat_template": "{{ bos_token }}" + TEMPLATE, "bos_token": {"content": "<s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(document))
    assert load_chat_template(settings(tmp_path))([USER]) == "<s><user>hi>"
    (tmp_path / "chat_template.jinja").write_text("own")
    assert load_chat_template(settings(tmp_path))([USER]) == "own"


def test_prompt_is_plain_without_template(tmp_path):
    assert load_chat_template(settings(tmp_path)) is build_plain_prompt
    (tmp_path / "tokenizer_config.json").write_text("{no json")
    assert load_chat_template(settings(tmp_path)) is build_plain_prompt


def test_template_refusal_is_bad_request(tmp_path):
    render = load_chat_template(settings(tmp_path, chat_template="{{ raise_exception('no system role') }}"))
    with pytest.raises(InvalidRequest, match="no system role"):
        render([USER])


def test_template_can_only_render(tmp_path):
    render = load_chat_template(settings(tmp_path, chat_template="{{ ''.__class__.__mro__ }}"))
    with pytest.raises(InvalidRequest, match="unsafe"):
        render([USER])


def test_invalid_settings_template_fails_load(tmp_path):
    with pytest.raises(ModelLoadFailed, match="chat_template"):
        load_chat_template(settings(tmp_path, chat_template="{% if %}"))


def test_call_formats_come_from_settings_or_template(tmp_path):
    assert find_formats(settings(tmp_path)) == (None, None)
    (tmp_path / "chat_template.jinja").write_text("<tool_call> <think>")
    assert find_formats(settings(tmp_path)) == ("hermes", "think")
    own = settings(tmp_path, tool_format="llama", reasoning_format="none")
    assert find_formats(own) == ("llama", "none")
    runtimes = settings(tmp_path, parameters={"extra": {"chat_template": "[TOOL_CALLS]"}})
    assert find_formats(runtimes) == ("mistral", None)
