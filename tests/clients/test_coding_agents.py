"""Programs that work on code with a language model, against a running server: each runs a command, and says its result."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.serving import Running

FOLDER = Path(os.environ.get("NODE_CLIENTS", "nowhere")).resolve()

pytestmark = pytest.mark.skipif(
    not (FOLDER / "node_modules" / ".bin").is_dir(),
    reason="needs a folder, named by NODE_CLIENTS, in which npm has installed the programs",
)

CODEX = """
model = "agent"
model_provider = "server"
[model_providers.server]
name = "server"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SERVER_KEY"
request_max_retries = 0
stream_max_retries = 0
"""

CONTINUE = """
name: server
version: 1.0.0
schema: v1
models:
  - {{name: agent, provider: openai, model: agent, apiBase: "{url}/v1", apiKey: none, roles: [chat]}}
"""

OPENCODE = {
    "model": "server/agent",
    "autoupdate": False,
    "share": "disabled",
    "provider": {
        "server": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "server",
            "options": {"baseURL": "{url}/v1", "apiKey": "none"},
            "models": {"agent": {"name": "agent"}},
        }
    },
}


class Program:
    """One program in a home and a folder of its own."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.url = url
        self.work = home / "work"
        self.work.mkdir()

    def write(self, path: str, text: str) -> None:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, name: str, *arguments: str, **variables: str) -> str:
        command = FOLDER / "node_modules" / ".bin" / name
        if not command.exists():
            pytest.skip(f"needs a folder, named by NODE_CLIENTS, in which npm has installed {name}")
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        done = subprocess.run(
            [str(command), *arguments],
            cwd=self.work,
            env={**kept, "HOME": str(self.home), "TERM": "dumb", **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture
def program(agent: Running, tmp_path: Path) -> Program:
    return Program(tmp_path, agent.url)


def test_codex(program: Program) -> None:
    program.write(".codex/config.toml", CODEX.format(url=program.url))
    flags = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    said = program.run("codex", "exec", *flags, "find it", SERVER_KEY="none")
    assert "found-it" in said.rpartition("It is")[2]


def test_codex_patches_files(program: Program) -> None:
    """Codex offers a custom tool if its list of models says that the model takes one."""
    program.write(".codex/config.toml", "")
    known = json.loads(program.run("codex", "debug", "models").rpartition("\n{")[2].join(("{", "")))
    model = {**known["models"][0], "slug": "agent", "apply_patch_tool_type": "freeform"}
    for name in ("tool_mode", "multi_agent_version", "multi_agent_reasoning_effort"):
        model.pop(name, None)
    model |= {
        "use_responses_lite": False,
        "supports_search_tool": False,
    }  # those are for OpenAI's own servers
    program.write("models.json", json.dumps({"models": [model]}))
    listed = f'model_catalog_json = "{program.home / "models.json"}"'
    program.write(".codex/config.toml", f"{listed}\n{CODEX.format(url=program.url)}")
    flags = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    program.run("codex", "exec", *flags, "apply_patch", SERVER_KEY="none")
    assert (program.work / "made.txt").read_text() == "grüße\n"


def test_claude_code(program: Program) -> None:
    flags = ("--model", "agent", "--max-turns", "3", "--allowedTools", "Bash")
    variables = {
        "ANTHROPIC_BASE_URL": program.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    assert "It is found-it" in program.run("claude", "-p", "find it", *flags, **variables)


def test_opencode(program: Program) -> None:
    program.write("work/opencode.json", json.dumps(OPENCODE).replace("{url}", program.url))
    said = program.run("opencode", "run", "find it", OPENCODE_DISABLE_MODELS_FETCH="1")
    assert "It is" in said
    assert "found-it" in said.rpartition("It is")[2]


def test_continue(program: Program) -> None:
    program.write("config.yaml", CONTINUE.format(url=program.url))
    config = str(program.home / "config.yaml")
    said = program.run("cn", "-p", "hello", "--config", config, "--auto", CONTINUE_TELEMETRY_ENABLED="0")
    assert "It is" in said


def test_cline(program: Program) -> None:
    data = ("--data-dir", str(program.home / "cline"))
    program.run(
        "cline", "auth", "-p", "openai", "-k", "none", "-m", "agent", "-b", f"{program.url}/v1", *data
    )
    said = program.run("cline", *data, "-P", "openai", "-m", "agent", "--json", "-t", "60", "find it")
    ended = [line for line in said.splitlines() if '"run_result"' in line]
    assert json.loads(ended[-1])["finishReason"] == "completed"
    assert json.loads(ended[-1])["usage"]["outputTokens"] == 6
