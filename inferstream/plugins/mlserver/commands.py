"""The command line and its functions, with MLServer names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from inferstream.ext.hosting import ClientTarget, command_line
from inferstream.plugins.tools.image.image import IGNORED
from inferstream.plugins.tools.image.image import generate_dockerfile as dockerfile_of
from inferstream.plugins.tools.infer.batch import Rate
from inferstream.plugins.tools.infer.run import Files, TransportName, open_run, parse_headers

from .names import VERSION

root = typer.main.get_command(command_line)
assert isinstance(root, typer.core.TyperGroup)
_context = root.context_class(root)
build, dockerfile, infer, init_project, start = (
    root.get_command(_context, name) for name in ("build", "dockerfile", "infer", "init", "start")
)

CHOICES_TRANSPORT = ["rest", "grpc"]


def main() -> None:
    """Run the command line."""
    command_line()


def generate_dockerfile(base_image: str = "") -> str:
    """Generate a Dockerfile for the current folder.

    `base_image` must include Python, and can contain `{version}`, the MLServer version.
    """
    text = dockerfile_of(Path(), like_mlserver=True)
    if not base_image:
        return text
    image = f"FROM {base_image.format(version=VERSION)}"
    return re.sub(r"^FROM (python|debian):\S+", lambda _: image, text, flags=re.MULTILINE)


def write_dockerfile(folder: str, dockerfile: str, include_dockerignore: bool = True) -> str:
    """Write a Dockerfile into `folder` and return its path."""
    path = Path(folder, "Dockerfile")
    path.write_text(dockerfile)
    if include_dockerignore:
        path.with_name("Dockerfile.dockerignore").write_text(IGNORED)
    return str(path)


@dataclass
class BatchInputItem:
    """A request line and its number."""

    index: int
    item: bytes


@dataclass
class BatchOutputItem:
    """A response line and the number of its request."""

    index: int
    item: bytes


def get_headers(request_id: str, headers: dict[str, str]) -> dict[str, str]:
    identity = {"seldon-puid": request_id, "x-request-id": request_id} if request_id else {}
    return {"content-type": "application/json", **headers, **identity}


async def process_batch(
    model_name: str,
    url: str,
    workers: int,
    retries: int,
    batch_size: int,
    input_data_path: str,
    output_data_path: str,
    binary_data: bool,
    transport: TransportName,
    request_headers: Sequence[str],
    timeout: float,
    batch_interval: float,
    batch_jitter: float,
    use_ssl: bool,
    insecure: bool,
    verbose: bool = False,
    extra_verbose: bool = False,
) -> None:
    """Send every request of a file to the server at `url`, like `server infer`."""
    target = ClientTarget(url, timeout, binary_data, use_ssl, not insecure, workers)
    files = Files(Path(input_data_path), Path(output_data_path), batch_size, resume=False)
    pace = Rate(workers, retries, batch_interval, batch_jitter, parse_headers(request_headers))
    async with open_run(transport, target, model_name, files, pace) as batch:
        await batch.run()
