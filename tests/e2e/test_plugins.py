"""What a package of another brings: one of each kind, used, and one of each that cannot be used."""

import hashlib
import json
import secrets
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import grpc
import httpx
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import Int64Value

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import SERVER, Running, write_model

SHOUT = Path(__file__).parents[1] / "packages" / "shout"

GROUPS = ("commands", "dialects", "codecs", "runtimes")


def install(site: Path, package: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """Write what pip writes of a package of pure Python, beside its modules."""
    written = site / f"{package}-1.0.dist-info"
    written.mkdir(parents=True)
    (written / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {package}\nVersion: 1.0\n")
    lines = []
    for group, points in entry_points.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items()), ""]
    (written / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package `shout` is installed."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((SHOUT / "pyproject.toml").read_text())["project"]
    install(site, project["name"], project["entry-points"])
    shutil.copytree(SHOUT / "shout", site / "shout")
    return site


@pytest.fixture(scope="module")
def server(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "settings.json").write_text('{"shout_hush_header": "x-other"}')
    for name in ("loud", "free"):
        write_model(folder, name, "shouting.Loud", name=name)
    write_model(folder, "far", "shouting.Loud", name="far", parallel_workers=1)
    numbers = [{"name": "x", "datatype": "FP32", "shape": [1]}]
    write_model(folder, "numbers", "shouting.Loud", name="numbers", inputs=numbers)
    running = Running(folder, "--strict", "--shout-hush-header", "x-hush", PYTHONPATH=str(site))
    yield running
    running.stop()


@pytest.mark.parametrize("trusted", [True, False])
def test_source_provides_repository(site: Path, tmp_path: Path, trusted: bool) -> None:
    (tmp_path / "models").mkdir()
    running = Running(
        tmp_path / "models",
        *["--trust-remote-code"] * trusted,
        target="shout://words",
        PYTHONPATH=str(site),
        INFERSTREAM_SOURCES_DIR=str(tmp_path / "cache"),
    )
    try:
        answer = httpx.post(f"{running.url}/shout/remote", content="hello")
        log = running.text()
    finally:
        running.stop()
    if trusted:
        assert answer.text == "HELLO"
    else:  # the implementation that its settings name is not one of ours
        assert answer.status_code == 503
        assert "shouting.Loud" in log
        assert "trust_remote_code" in log


def test_protocol_has_route_and_its_stage_refuses(server: Running) -> None:
    with httpx.Client(base_url=server.url) as client:
        answer = client.post("/shout/loud", content="hello")
        assert (answer.status_code, answer.headers["content-type"], answer.text) == (
            200,
            "text/plain",
            "HELLO",
        )
        refused = client.post("/shout/loud", content="hello", headers={"x-hush": "1"})
        assert (refused.status_code, refused.text) == (403, "hush")
        assert 'shout_refused_total{model="loud",version=""} 1.0' in client.get("/metrics").text
        assert client.post("/shout/free", content="hello", headers={"x-hush": "1"}).text == "HELLO"
        assert client.post("/shout/nobody", content="hello").status_code == 404


def test_facet_selects_models_of_protocol(server: Running) -> None:
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/shout").json() == ["far", "free", "loud"]
        refused = client.post("/shout/numbers", content="hello")
    assert (refused.status_code, refused.text) == (400, "numbers takes no single text")


def test_protocol_gathers_stream_only_model(site: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "words.py").write_text(
        "from collections.abc import Iterator\nfrom inferstream import App\napp = App()\n\n"
        "@app.model\ndef words(text: str) -> Iterator[str]:\n    yield from text.upper().split()\n\n"
        "@app.model\ndef size(data: bytes) -> int:\n    return len(data)\n"
    )
    running = Running(
        tmp_path / "models", "--strict", target=str(tmp_path / "words.py"), PYTHONPATH=str(site)
    )
    try:
        assert httpx.post(f"{running.url}/shout/words", content="a b").text == "AB"
        refused = httpx.post(f"{running.url}/shout/size", content="a")
        assert (refused.status_code, refused.text) == (400, "size takes no single text")
    finally:
        running.stop()


def test_operation_needs_scope_and_is_closed_beyond_loopback(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "loud", "shouting.Loud", name="loud")
    (folder / "settings.json").write_text(json.dumps({"audit_log": str(tmp_path / "audit")}))
    keys = {scope: f"ifs_{scope}_{secrets.token_urlsafe(32)}" for scope in ("shout", "infer")}
    entries = [
        {
            "id": scope,
            "principal": scope,
            "sha256": hashlib.sha256(key.encode()).hexdigest(),
            "scopes": [scope],
            "models": ["*"],
        }
        for scope, key in keys.items()
    ]
    document = json.dumps({"version": 1, "keys": entries})
    running = Running(folder, "--strict", PYTHONPATH=str(site), INFERSTREAM_KEYS=document)
    try:
        url = f"{running.url}/shout"
        refused = httpx.get(url, headers={"x-api-key": keys["infer"]})
        assert (refused.status_code, refused.text) == (403, 'The key lacks the scope "shout".')
        assert httpx.get(url, headers={"x-api-key": keys["shout"]}).json() == ["loud"]
        assert httpx.get(url).status_code == 401
    finally:
        running.stop()
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [(line["operation"], line["principal"]) for line in lines] == [
        ("listen", "infer"),
        ("listen", None),
    ]
    running = Running(folder, "--strict", "--host", "0.0.0.0", PYTHONPATH=str(site))
    try:
        refused = httpx.get(f"{running.url}/shout")
    finally:
        running.stop()
    assert refused.status_code == 403
    assert refused.text.startswith("The list of models that can shout is closed because")


def test_call_value_reaches_worker_edge_of_same_package(server: Running) -> None:
    silent = {"x-silent": "1"}
    with httpx.Client(base_url=server.url) as client:
        assert client.post("/shout/far", content="hello").text == "HELLO"
        refused = client.post("/shout/far", content="hello", headers=silent)
        assert (refused.status_code, refused.text) == (403, "too quiet")
        here = client.post(
            "/shout/loud", content="hello", headers=silent
        )  # without a worker there is no edge of it
    assert here.text == "HELLO"


def test_stage_wraps_calls_of_every_protocol(server: Running) -> None:
    request = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["hello"]}]}
    url = f"{server.url}/v2/models/loud/infer"
    assert httpx.post(url, json=request).json()["outputs"][0]["data"] == ["HELLO"]
    assert httpx.post(url, json=request, headers={"x-hush": "1"}).status_code == 403


def test_stream_protocol_payload_is_an_id(server: Running) -> None:
    messages = [pb.ModelInferRequest(model_name="loud", id=word) for word in ("one", "two")]
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        answers = stub.ModelStreamInfer(iter(messages), metadata=[("x-stream-dialect", "shout")])
        assert [answer.id for answer in answers] == ["ONE", "TWO"]
        assert dict(answers.initial_metadata())["x-stream-dialect"] == "shout"


def test_rpc_queries_other_front_ends(site: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    # A name of another server, which the package has.
    write_model(tmp_path / "models", "loud", "megaphone.Loud", name="loud")
    running = Running(tmp_path / "models", "--frontends", "2", "--strict", PYTHONPATH=str(site))
    try:
        for _ in range(20):  # each over a new connection, which either front end gets
            httpx.post(f"{running.url}/shout/loud", content="hello").raise_for_status()
        with grpc.insecure_channel(running.grpc) as channel:
            count = channel.unary_unary("/shout.Shout/Count", Empty.SerializeToString, Int64Value.FromString)
            assert [count(Empty()).value for _ in range(2)] == [20, 20]
    finally:
        running.stop()


def test_folder_with_only_an_artefact_is_a_model(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "sum").mkdir(parents=True)
    (folder / "sum" / "weights.json").write_text('{"a": 2, "b": 3}')
    running = Running(folder, "--strict", PYTHONPATH=str(site))
    try:
        inputs = [{"name": name, "datatype": "FP64", "shape": [1], "data": [1]} for name in ("a", "b")]
        answer = httpx.post(f"{running.url}/v2/models/sum/infer", json={"inputs": inputs})
        assert answer.json()["outputs"][0]["data"] == [5]
    finally:
        running.stop()


def test_codec_decodes_its_content_type(server: Running) -> None:
    tensor = {
        "name": "text",
        "datatype": "BYTES",
        "shape": [1],
        "data": ["uryyb"],
        "parameters": {"content_type": "rot13"},
    }
    answer = httpx.post(f"{server.url}/v2/models/loud/infer", json={"inputs": [tensor]}).json()
    assert answer["outputs"][0]["data"] == ["HELLO"]


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SERVER, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "", "PYTHONPATH": str(site), "COLUMNS": "200"},
    )


def test_command_is_registered(site: Path) -> None:
    ran = run(site, "shout", "hello")
    assert (ran.returncode, ran.stdout) == (0, "HELLO\n")
    assert "Print TEXT in capitals." in run(site, "--help").stdout


def test_flag_follows_the_flag_it_names(site: Path) -> None:
    lines = run(site, "start", "--help").stdout.splitlines()
    flags = [line.split()[1] for line in lines if line.startswith("│ --")]
    assert flags[flags.index("--strict") + 1 :][:2] == ["--shout-hush-header", "--trust-remote-code"]
    assert "Header of calls that are refused." in "".join(lines)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package none of whose entry points can be used, each in two ways."""
    site = tmp_path_factory.mktemp("broken")
    points = {f"inferstream.{group}": {f"lost.{group.title()}": "absent:thing"} for group in GROUPS}
    wrong = {
        "commands": {"start": "wrong:number", "number": "wrong:number"},
        "dialects": {"thief": "wrong:Thief", "number": "wrong:number"},
        "codecs": {"str": "wrong", "empty": "wrong"},
    }
    for group, named in wrong.items():
        points[f"inferstream.{group}"] |= named
    install(site, "wrong", points)
    install(site, "zweig", {"inferstream.commands": {"number": "wrong:number"}})
    (site / "wrong.py").write_text(
        "from inferstream.dataplane.access import Action\n"
        "from inferstream.server.rest.dialects.base import HttpDialect, ReadClaim\n\n"
        "number = 5\n\n\n"
        "class Thief(HttpDialect):\n    name = 'thief'\n\n"
        "    def reads(self):\n"
        "        return [ReadClaim(path, Action.HEALTH, self.read) for path in ('/thief', '/v2/health/live')]\n\n"
        "    async def read(self, route, caller, scope):\n        return 200, [], b'stolen'\n"
    )
    return site


LEFT_OUT = (
    'zweig: entry point "number" of inferstream.commands (wrong:number): package wrong has this name',
    'wrong: entry point "lost.Dialects" of inferstream.dialects (absent:thing): '
    "ModuleNotFoundError: No module named 'absent'",
    'wrong: entry point "number" of inferstream.dialects (wrong:number): it is not a subclass of HttpDialect or Door',
    'wrong: entry point "thief" of inferstream.dialects (wrong:Thief): The dialects "metadata" and '
    '"thief" both claim /v2/health/live.',
    'wrong: entry point "str" of inferstream.codecs (wrong): the server has a codec of this content type',
    'wrong: entry point "empty" of inferstream.codecs (wrong): it registers no codec of this content type',
    'wrong: entry point "lost.Codecs" of inferstream.codecs (absent:thing): '
    "ModuleNotFoundError: No module named 'absent'",
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_model(folder, "echo", "faulty_models.Echo", name="echo")
    write_model(folder, "gone", "lost.Runtimes", name="gone")
    return folder


def test_server_starts_without_broken_plugin_and_warns_once(broken: Path, models: Path) -> None:
    running = Running(models, PYTHONPATH=str(broken))
    try:
        text = running.text()
        for line in LEFT_OUT:
            assert text.count(f"package {line}") == 1, (line, text)
        assert 'Model gone did not load: package wrong: entry point "lost.Runtimes"' in text
        assert "Traceback" not in text
        with httpx.Client(base_url=running.url) as client:
            assert client.get("/v2/health/live").json() == {"live": True}
            assert client.get("/thief").status_code == 404, "a dialect that is left out has no route"
            request = {"inputs": [{"name": "a", "datatype": "BYTES", "shape": [1], "data": ["b"]}]}
            assert client.post("/v2/models/echo/infer", json=request).status_code == 200
    finally:
        running.stop()


def test_server_does_not_start_without_stage(models: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "wrong", {"inferstream.stages": {"guard": "absent:thing"}})
    running = Running(models / "echo", wait=False, PYTHONPATH=str(site))
    assert running.process.wait(30) == 1, running.text()
    last = running.text().strip().splitlines()[-1]
    assert last.startswith('error: package wrong: entry point "guard" of inferstream.stages (absent:thing): ')


@pytest.mark.parametrize("target", ["builtins:len", "operator:lt"])
def test_model_is_not_served_without_stage(target: str, models: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "wrong", {"inferstream.stages": {"guard": target}})
    running = Running(models / "echo", PYTHONPATH=str(site))
    try:
        assert f'package wrong: entry point "guard" of inferstream.stages ({target}): ' in running.text()
        request = {"inputs": [{"name": "a", "datatype": "BYTES", "shape": [1], "data": ["b"]}]}
        assert running.infer("echo", request).status_code in (404, 503)
    finally:
        running.stop()


@pytest.mark.parametrize("group", ["commands", "dialects", "stages", "codecs"])
def test_strict_server_exits_with_the_warning(group: str, models: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "wrong", {f"inferstream.{group}": {"gone": "absent:thing"}})
    if group == "commands":
        install(site, "zweig", {f"inferstream.{group}": {"gone": "absent:thing"}})
    running = Running(models / "echo", "--strict", wait=False, PYTHONPATH=str(site))
    assert running.process.wait(30) == 1
    last = running.text().strip().splitlines()[-1]
    package = "zweig" if group == "commands" else "wrong"
    assert last.startswith(f'error: package {package}: entry point "gone" of inferstream.{group} (absent:')


def test_broken_command_is_reported_and_others_work(broken: Path) -> None:
    ran = run(broken, "--help")
    assert ran.returncode == 0
    assert "Serve models until" in ran.stdout
    for line in (
        'wrong: entry point "lost.Commands" of inferstream.commands (absent:thing): ModuleNotFoundError',
        'wrong: entry point "number" of inferstream.commands (wrong:number): TypeError: it is neither a function',
        'wrong: entry point "start" of inferstream.commands (wrong:number): the server has a command of this name',
    ):
        assert f"warning: package {line}" in ran.stderr
    asked = run(broken, "lost.Commands")
    assert asked.returncode == 2
    assert "No module named 'absent'" in asked.stderr
