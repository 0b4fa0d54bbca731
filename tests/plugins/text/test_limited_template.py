"""Templates in a process with limits."""

import gc
import os
from concurrent.futures import Future
from pathlib import Path

import pytest

from inferstream.errors import InvalidRequest, ModelError, Overloaded
from inferstream.plugins.text import jinja, limited_template
from inferstream.plugins.text.limited_template import LimitedTemplate
from inferstream.plugins.text.template import load_chat_template
from tests.plugins.text.test_template import USER, settings
from tests.serving import eventually

LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x"


def test_prompt_with_special_tokens_and_tools() -> None:
    template = LimitedTemplate(
        "m", "{{ bos_token }}{{ messages[0].content }}{{ tools | tojson }}", {"bos_token": "<s>"}
    )
    assert template([USER], options={"tools": [{"é": 1}]}).result() == '<s>hi[{"é": 1}]'
    assert template([USER]).result() == "<s>hinull"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (LOOP, "takes more than 0.5 s of processor time or 256 MB"),
        ("{{ 'a' * 10**10 }}", "needs more than 256 MB of memory"),
        ("{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}", "writes more than 1,000,000 bytes"),
        ("{% if %}", "cannot be used: Expected an expression"),
    ],
)
def test_limit_ends_render_and_next_one_succeeds(source: str, reason: str) -> None:
    template = LimitedTemplate("m", source, {})
    for _ in range(2):
        with pytest.raises(ModelError, match=reason) as failed:
            template([USER]).result()
        assert failed.value.status_code == 500


def test_template_refusal_names_messages_field() -> None:
    template = LimitedTemplate("m", "{{ raise_exception('no ' * 1000) }}", {})
    with pytest.raises(InvalidRequest, match=r"^input: the chat template refuses them: no no") as refused:
        template([USER], "input").result()
    assert len(refused.value.message) < jinja.MAX_REASON_LENGTH + 100


def test_unparsable_template_can_have_fallback() -> None:
    template = LimitedTemplate("m", "{% if %}", {}, lambda messages: f"plain {len(messages)}")
    assert template([USER]).result() == "plain 1"


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ"])
def test_template_reads_no_file(path: str) -> None:
    template = LimitedTemplate("m", f"{{% include '{path}' %}}", {})
    with pytest.raises(InvalidRequest, match="no loader"):
        template([USER]).result()


def test_generation_block_of_training_templates_is_rendered() -> None:
    source = "{% for i in [1, 2] %}{% generation %}{{ i }}{% break %}{% endgeneration %}{% endfor %}"
    assert LimitedTemplate("m", source, {})([USER]).result() == "1"


def test_lone_surrogates_are_replaced() -> None:
    assert LimitedTemplate("m", r"{{ '\ud800' }}é", {})([USER]).result() == "?é"


def test_template_process_has_no_secrets_and_ends_with_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cr3t")
    template = LimitedTemplate("m", "x", {})
    template([USER]).result()
    process, _ = template._running[0]
    folder = Path(f"/proc/{process.pid}")
    assert b"s3cr3t" not in (folder / "environ").read_bytes()
    limits = dict(line.split("  ", 1) for line in (folder / "limits").read_text().splitlines())
    assert limits["Max open files"].split()[0] == limits["Max processes"].split()[0] == "0"
    del template
    gc.collect()
    eventually(lambda: process.returncode is not None)


def test_killed_process_restarts() -> None:
    template = LimitedTemplate("m", "x", {})
    template([USER]).result()
    process, _ = template._running[0]
    process.kill()
    process.wait()
    assert template([USER]).result() == "x"


def test_unresponsive_process_is_server_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_template, "PATIENCE_SECONDS", 0.001)
    with pytest.raises(Overloaded, match="A prompt of model m took"):
        LimitedTemplate("m", "x", {})([USER]).result()


def test_waiting_renders_are_limited() -> None:
    template = LimitedTemplate("m", "x", {})
    template._waiting = {Future() for _ in range(limited_template.MAX_WAITING)}
    with pytest.raises(Overloaded, match="16 prompts of model m"):
        template([USER])


# Where templates come from


def marked(path: Path) -> str | None:
    """As `repository.remote.untrusted`, with a mark in the folder."""
    return next(
        (each.joinpath(".mark").read_text() for each in path.parents if each.joinpath(".mark").exists()), None
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / ".mark").write_text("oci://host/m")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "repository"


@pytest.mark.parametrize(
    "name", ["../secret.txt", "a/../../secret.txt", "link", "/etc/passwd", "/proc/self/environ", "../missing"]
)
def test_untrusted_settings_cannot_name_file_outside(folder: Path, name: str) -> None:
    os.symlink("../secret.txt", folder / "link")
    (folder / "a").mkdir()
    with pytest.raises(ModelError, match="leads out of oci://host/m; trust_remote_code allows it"):
        load_chat_template(settings(folder, chat_template=name), marked)


def test_untrusted_settings_can_name_file_inside(folder: Path) -> None:
    (folder / "chat.jinja").write_text("inside {{ messages[0].content }}")
    render = load_chat_template(settings(folder, chat_template="chat.jinja"), marked)
    assert isinstance(render, LimitedTemplate)
    assert render([USER]).result() == "inside hi"
    assert isinstance(load_chat_template(settings(folder, chat_template="{{ 1 }}"), marked), LimitedTemplate)


def test_untrusted_tokenizer_template_is_limited(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("x")
    assert isinstance(load_chat_template(settings(folder), marked), LimitedTemplate)
    trusted = load_chat_template(settings(folder))
    assert trusted([USER]) == "x"


def test_large_files_are_not_templates(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("x" * 1_000_001)
    from inferstream.plugins.text.chat import build_plain_prompt

    assert load_chat_template(settings(folder), marked) is build_plain_prompt


def test_many_messages_are_rendered_in_a_thread(folder: Path) -> None:
    render = load_chat_template(settings(folder, chat_template="{{ messages | length }}"))
    assert render([USER] * 256) == "256"
    later = render([USER] * 257)
    assert isinstance(later, Future)
    assert later.result() == "257"


def test_render_error_names_no_local_file() -> None:
    needs = LimitedTemplate("m", "{{ 'a'.encode('utf-7') }}", {})
    with pytest.raises(InvalidRequest) as refused:
        needs([USER]).result()
    assert "it needs a file" in refused.value.message
    assert os.sep + "lib" not in refused.value.message
    assert LimitedTemplate("m", "{{ '<b>a b</b>' | striptags | wordwrap(1) }}", {})([USER]).result() == "a\nb"


def test_template_with_invalid_unicode_fails_load() -> None:
    for source, special in (("\ud800", {}), ("x", {"bos_token": "\ud800"})):
        with pytest.raises(ValueError, match="surrogates"):
            LimitedTemplate("m", source, special)


def test_unstartable_process_is_server_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    template = LimitedTemplate("m", "{{ messages[0].content }}", {})
    with monkeypatch.context() as patch:
        patch.setattr(limited_template.subprocess, "Popen", refused)
        with pytest.raises(Overloaded, match="cannot be written now"):
            template([USER]).result()
    assert template([USER]).result() == "hi"
