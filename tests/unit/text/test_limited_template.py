"""Templates in a process with limits."""

import gc
import os
from concurrent.futures import Future
from pathlib import Path

import pytest

from inferstream.errors import InvalidRequest, ModelError, Overloaded
from inferstream.text import jinja, limited_template
from inferstream.text.limited_template import LimitedTemplate
from inferstream.text.template import chat_template
from tests.serving import eventually
from tests.unit.text.test_template import USER, settings

LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x"


def test_a_prompt_and_the_tokens_and_tools_that_a_template_may_name() -> None:
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
def test_a_limit_ends_a_render_and_the_next_one_is_tried(source: str, reason: str) -> None:
    template = LimitedTemplate("m", source, {})
    for _ in range(2):
        with pytest.raises(ModelError, match=reason) as failed:
            template([USER]).result()
        assert failed.value.status_code == 500


def test_a_template_refuses_messages_by_the_name_of_their_field() -> None:
    template = LimitedTemplate("m", "{{ raise_exception('no ' * 1000) }}", {})
    with pytest.raises(InvalidRequest, match=r"^input: the chat template refuses them: no no") as refused:
        template([USER], "input").result()
    assert len(refused.value.message) < jinja.LONGEST_REASON + 100


def test_what_jinja_cannot_read_may_have_a_fallback() -> None:
    template = LimitedTemplate("m", "{% if %}", {}, lambda messages: f"plain {len(messages)}")
    assert template([USER]).result() == "plain 1"


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ"])
def test_no_file_is_read(path: str) -> None:
    template = LimitedTemplate("m", f"{{% include '{path}' %}}", {})
    with pytest.raises(InvalidRequest, match="no loader"):
        template([USER]).result()


def test_the_block_of_templates_for_training_is_written() -> None:
    source = "{% for i in [1, 2] %}{% generation %}{{ i }}{% break %}{% endgeneration %}{% endfor %}"
    assert LimitedTemplate("m", source, {})([USER]).result() == "1"


def test_lone_surrogates_are_replaced() -> None:
    assert LimitedTemplate("m", r"{{ '\ud800' }}é", {})([USER]).result() == "?é"


def test_the_process_has_no_secrets_and_ends_with_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_process_that_was_killed_starts_again() -> None:
    template = LimitedTemplate("m", "x", {})
    template([USER]).result()
    process, _ = template._running[0]
    process.kill()
    process.wait()
    assert template([USER]).result() == "x"


def test_a_process_that_does_not_answer_is_the_machine_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_template, "PATIENCE_SECONDS", 0.001)
    with pytest.raises(Overloaded, match="A prompt of model m took"):
        LimitedTemplate("m", "x", {})([USER]).result()


def test_few_renders_wait() -> None:
    template = LimitedTemplate("m", "x", {})
    template._waiting = {Future() for _ in range(limited_template.MOST_WAITING)}
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
def test_untrusted_settings_name_no_file_outside(folder: Path, name: str) -> None:
    os.symlink("../secret.txt", folder / "link")
    (folder / "a").mkdir()
    with pytest.raises(ModelError, match="leads out of oci://host/m; trust_remote_code allows it"):
        chat_template(settings(folder, chat_template=name), marked)


def test_untrusted_settings_may_name_a_file_inside(folder: Path) -> None:
    (folder / "chat.jinja").write_text("inside {{ messages[0].content }}")
    render = chat_template(settings(folder, chat_template="chat.jinja"), marked)
    assert isinstance(render, LimitedTemplate)
    assert render([USER]).result() == "inside hi"
    assert isinstance(chat_template(settings(folder, chat_template="{{ 1 }}"), marked), LimitedTemplate)


def test_the_tokenizer_of_an_untrusted_folder_is_limited(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("x")
    assert isinstance(chat_template(settings(folder), marked), LimitedTemplate)
    trusted = chat_template(settings(folder))
    assert trusted([USER]) == "x"


def test_large_files_are_no_templates(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("x" * 1_000_001)
    from inferstream.text.chat import plain_prompt

    assert chat_template(settings(folder), marked) is plain_prompt


def test_many_messages_are_written_in_a_thread(folder: Path) -> None:
    render = chat_template(settings(folder, chat_template="{{ messages | length }}"))
    assert render([USER] * 256) == "256"
    later = render([USER] * 257)
    assert isinstance(later, Future)
    assert later.result() == "257"


def test_the_error_of_a_render_names_no_file_of_this_machine() -> None:
    needs = LimitedTemplate("m", "{{ 'a'.encode('utf-7') }}", {})
    with pytest.raises(InvalidRequest) as refused:
        needs([USER]).result()
    assert "it needs a file" in refused.value.message
    assert os.sep + "lib" not in refused.value.message
    assert LimitedTemplate("m", "{{ '<b>a b</b>' | striptags | wordwrap(1) }}", {})([USER]).result() == "a\nb"


def test_a_template_that_no_utf8_holds_is_refused_at_load() -> None:
    for source, special in (("\ud800", {}), ("x", {"bos_token": "\ud800"})):
        with pytest.raises(ValueError, match="surrogates"):
            LimitedTemplate("m", source, special)


def test_a_process_that_cannot_be_started_is_the_machine_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    template = LimitedTemplate("m", "{{ messages[0].content }}", {})
    with monkeypatch.context() as patch:
        patch.setattr(limited_template.subprocess, "Popen", refused)
        with pytest.raises(Overloaded, match="cannot be written now"):
            template([USER]).result()
    assert template([USER]).result() == "hi"
