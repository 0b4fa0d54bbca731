"""Chat templates of model folders that run code, and clients that bring a template of their own."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cve.audited import Audited
from tests.cve.source import imported, nodes
from tests.texts import write_text_model

CVES = (
    "CVE-2024-34359",
    "CVE-2026-5760",
    "GHSA-46cm-pfwv-cgf8",
    "CVE-2025-62426",
    "CVE-2025-61620",
)

ESCAPES = {
    "globals": "{{ lipsum.__globals__['os'].system(%s) }}",
    "cycler": "{{ cycler.__init__.__globals__.os.system(%s) }}",
    "joiner": "{{ joiner.__init__.__globals__.os.popen(%s).read() }}",
    "self": "{{ self.__init__.__globals__.__builtins__.__import__('os').system(%s) }}",
    "subclasses": "{% for c in ''.__class__.__mro__[1].__subclasses__() %}{{ c('x', -1) }}{% endfor %}{#%s#}",
    "attr": "{{ lipsum | attr('__globals__') | attr('get')('os') | attr('system')(%s) }}",
    "format": "{{ '{0.__class__.__init__.__globals__}'.format(lipsum) ~ %s }}",
    "indirect": "{{ ('{0.__class__.__mro__}' | attr('format'))(lipsum) ~ %s }}",
    "map": "{{ [lipsum] | map(attribute='__globals__') | list ~ %s }}",
    "given": "{{ raise_exception.__globals__['os'].system(%s) }}",
    "date": "{{ strftime_now.__self__.sys.modules['os'].system(%s) }}",
    "messages": "{{ messages.append.__self__.__class__.__base__ ~ messages.clear() ~ %s }}",
    "range": "{{ range(10**9) | list | length ~ %s }}",
    "include": "{% include '/etc/passwd' %}{#%s#}",
    "import": "{% import 'os' as os %}{{ os.system(%s) }}",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Audited, Path]]:
    root = tmp_path_factory.mktemp("templates")
    folder, victim = root / "models", root / "victim"
    for name, source in ESCAPES.items():
        template = source.replace("%s", repr(f"touch {victim}"))
        write_text_model(folder, "saying")
        model = (folder / "saying").rename(folder / name)
        settings = json.loads((model / "model-settings.json").read_text())
        (model / "model-settings.json").write_text(json.dumps({**settings, "name": name}))
        (model / "chat_template.jinja").write_text(template)
    (folder / "settings.json").write_text("{}")
    running = Audited(folder)
    yield running, victim
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("name", ESCAPES)
def test_template_has_no_access(hostile: tuple[Audited, Path], name: str) -> None:
    server, victim = hostile
    server.mark()
    for path in ("/v1/chat/completions", "/v1/responses"):
        body = {"model": name, "messages": [{"role": "user", "content": "hi"}], "input": "hi"}
        found = httpx.post(f"{server.url}{path}", json=body, timeout=20)
        assert found.status_code in (200, 400), found.text
        if found.status_code == 200:
            assert "subclasses" not in found.text
            assert "__globals__" not in found.text
            assert "root:" not in found.text
            assert "builtin_function" not in found.text
    assert not victim.exists()
    assert server.done("subprocess.", "os.") == []


LEVERS = {
    "chat_template": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}taken",
    "chat_template_kwargs": {
        "tokenize": True,
        "chat_template": "taken",
        "messages": [{"role": "user", "content": "taken"}],
        "bos_token": "taken",
    },
    "tokenize": True,
    "add_generation_prompt": False,
    "continue_final_message": True,
    "documents": [{"title": "taken", "text": "taken"}],
    "tools": None,
    "bos_token": "taken",
    "template": "taken",
}


@pytest.mark.parametrize("model", ["templated", "saying"])
@pytest.mark.parametrize("lever", LEVERS)
def test_request_field_cannot_replace_template(watched: Audited, model: str, lever: str) -> None:
    def asked(**more: object) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **more}
        return httpx.post(f"{watched.url}/v1/chat/completions", json=body, timeout=20)

    def prompt(found: httpx.Response) -> str:
        assert found.status_code == 200, found.text
        return json.loads(found.json()["choices"][0]["message"]["content"])["inputs"]

    found = asked(**{lever: LEVERS[lever]})
    if found.status_code == 400:  # it cannot be applied to this chat, or by this model
        assert lever in ("continue_final_message", "chat_template_kwargs"), found.text
    else:
        assert prompt(found) == prompt(asked())


def test_every_environment_of_templates_is_sandboxed() -> None:
    used = {each for _, node in nodes("jinja2") for each in imported(node) if each.startswith("jinja2")}
    assert used == {
        "jinja2.TemplateError",
        "jinja2.__file__",  # where a process of limited templates finds the library
        "jinja2.ext.loopcontrols",
        "jinja2.sandbox.ImmutableSandboxedEnvironment",
    }
