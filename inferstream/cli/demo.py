"""`server demo`: serves a small bundled language model, and prints commands that call it."""

from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import typer

from .banner import address, show
from .flags import Flags
from .start import run as start

if TYPE_CHECKING:
    from ..server.server import Server

MODELS = files(__package__) / "demo_models"

LINES = """
Try, in another terminal:

  curl -N {url}/generate -d '{{"prompt": "the old man", "stream": true}}'

  curl -N {url}/v2/models/storyteller/generate_stream -d '{{"prompt": "the old man"}}'

  curl -N {url}/v1/chat/completions -d '{{"model": "storyteller", "stream": true,
    "messages": [{{"role": "user", "content": "the old man"}}]}}'

  pip install openai, then in Python:

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  messages = [{{"role": "user", "content": "the old man"}}]
  for chunk in client.chat.completions.create(model="storyteller", messages=messages, stream=True):
      print(chunk.choices[0].delta.content or "", end="", flush=True)

Ctrl+C stops the server. `server init my-model --template llm` writes a folder with a real language model.
"""


def run(flags: Mapping[str, Any]) -> int:
    """Serve the bundled model until a signal arrives, and return the exit code."""
    with as_file(MODELS) as folder:
        return start(folder, Flags(flags), watch=False, say=_show_commands)


def _show_commands(server: "Server") -> None:
    show(server, pasted=False)
    typer.echo(LINES.format(url=address(server, "REST", reachable=True)), err=True)
