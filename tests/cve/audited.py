"""A server whose processes note what an attack would make them do: unpickle, start processes, look up names, write."""

import json
import os
import re
import shutil
import threading
from pathlib import Path
from socket import create_server

from tests.serving import HERE, Running, write_model
from tests.texts import MODELS as TEXT_MODELS

HOOK = """
import os, sys

SEEN = {"pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn",
        "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "urllib.Request"}

def noted(event, arguments):
    if event == "open":
        path, _, flags = arguments
        if not isinstance(path, (str, bytes)) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        path = os.fsdecode(path)
        if path.startswith(("/dev/", "/proc/")) or path == os.environ.get("TEST_LOG"):
            return
        what = path
    elif event in SEEN:
        what = repr(arguments)[:300]
    else:
        return
    os.write(log, f"{event} {what}\\n".encode(errors="replace"))

log = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
sys.addaudithook(noted)
"""

MODEL = '''
from fastapi import Request
from inferstream import InferenceRequest, InferenceResponse, MLModel, custom_handler
from inferstream.plugins.llm.pipelines.tensors import decode_arguments


class Custom(MLModel):
    """Routes of its own, and a prediction."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.encode_response(["here"])

    @custom_handler("/own/post")
    async def post(self, request: Request) -> dict:
        return {"bytes": len(await request.body())}

    @custom_handler("/own/get", rest_method="GET")
    async def get(self) -> dict:
        return {"got": True}

    @custom_handler("/own/put", rest_method="PUT")
    async def put(self, request: Request) -> dict:
        return {"bytes": len(await request.body())}

    @custom_handler("/own/delete", rest_method="DELETE")
    async def delete(self) -> dict:
        return {}


class Decoding(MLModel):
    """Decodes every input by its content type, as the runtime of pipelines does."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.encode_response([name for name in decode_arguments(payload)])


class Hearing(MLModel):
    """Takes a file of a form."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.encode_response([str(len(payload.inputs[0].data.flat()[0]))])
'''

HEARING = {
    "inputs": [
        {"name": "audio", "datatype": "BYTES", "shape": [1], "parameters": {"content_type": "base64"}}
    ],
    "outputs": [{"name": "text", "datatype": "BYTES", "shape": [1]}],
}

STARTED = 90
"""Seconds in which so many models and processes have started on a busy machine."""

ECHOES = {
    "echo": {"implementation": "faulty_models.Echo"},
    "cached": {"implementation": "faulty_models.Echo", "cache_enabled": True},
    "both": {"implementation": "faulty_models.Both"},
    "slow": {"implementation": "faulty_models.Slow"},
    "spinning": {"implementation": "faulty_models.Spinning"},
    "arrays": {"implementation": "faulty_models.Arrays"},
}

TAKEN = {
    **{name: TEXT_MODELS[name] for name in ("words", "saying", "messages", "templated", "vectors")},
    "tools": {
        **TEXT_MODELS["saying"],
        "inputs": [
            *TEXT_MODELS["saying"]["inputs"],
            *(
                {"name": name, "datatype": "BYTES", "shape": [1], "parameters": {"optional": True}}
                for name in ("tools", "response_format")
            ),
        ],
    },
}


def write_models(folder: Path, **settings: object) -> Path:
    """Models of tensors, of texts, with routes of their own and with decoders."""
    for name, model in ECHOES.items():
        write_model(folder, name, name=name, **model)
    for name, implementation in {"custom": "own.Custom", "decoding": "own.Decoding"}.items():
        write_model(folder, name, code=MODEL, name=name, implementation=implementation)
    write_model(folder, "hearing", code=MODEL, name="hearing", implementation="own.Hearing", **HEARING)
    for name, model in TAKEN.items():
        text = {**model, "implementation": f"text_models.{model['implementation']}"}
        write_model(folder, name, name=name, **text)
        shutil.copy(HERE / "text_models.py", folder / name)
    (folder / "settings.json").write_text(json.dumps({"default_model": "words", **settings}))
    return folder


class Audited(Running):
    """A server and what its processes, workers and front ends among them, have done since `mark`."""

    def __init__(self, folder: Path, *flags: str, **environment: str) -> None:
        hook = folder.parent / f"{folder.name}.hook"
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(HOOK)
        self.audit = folder.parent / f"{folder.name}.audit"
        paths = os.pathsep.join(filter(None, (str(hook), os.environ.get("PYTHONPATH"))))
        super().__init__(
            folder, *flags, within=STARTED, PYTHONPATH=paths, AUDIT=str(self.audit), **environment
        )
        self.mark()

    def mark(self) -> None:
        self._from = self.audit.stat().st_size

    def done(self, *events: str) -> list[str]:
        """What was noted since `mark`: of these events, or of all."""
        with self.audit.open("rb") as log:
            log.seek(self._from)
            lines = log.read().decode(errors="replace").splitlines()
        return [line for line in lines if not events or line.startswith(events)]

    def processes(self) -> list[int]:
        return [self.process.pid, *self.workers()]

    def descriptors(self) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self.processes())

    def threads(self) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in self.processes())

    def sockets(self) -> set[str]:
        """Inodes of the sockets that the processes have."""
        found = set()
        for pid in self.processes():
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    found |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(descriptor)))
                except OSError:  # closed meanwhile
                    continue
        return found


class Target:
    """A listener that nothing may connect to."""

    def __init__(self) -> None:
        self._socket = create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.reached = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self._socket.accept()[0].close()
            except OSError:
                return
            self.reached += 1

    def close(self) -> None:
        self._socket.close()
