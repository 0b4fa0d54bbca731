"""Jinja for chat templates. Run as a program, it renders templates whose authors are not trusted.

The program imports only Jinja, so it starts quickly. Each line on standard input is a JSON object with the
template source and its variables. The program writes one line of JSON for each line.
"""

import json
import signal
import sys
from functools import lru_cache
from time import strftime
from typing import Any

SECONDS = 0.5
"""CPU time limit of a render in seconds."""

MEMORY = 2**28
"""Limit of the address space in bytes. Python and Jinja need about a tenth of it."""

MAX_PROMPT_SIZE = 1_000_000
"""Maximum size of a prompt in bytes of UTF-8."""

MAX_REASON_LENGTH = 500
"""Maximum length of an error message in characters. Templates control the message."""

WARM = (
    "{{ [] | pprint ~ 'x' | wordwrap | striptags ~ lipsum(n=1) ~ strftime_now('%c') ~ raise_exception('x') }}"
)
"""A template that loads all lazy imports and files before the process loses access to files."""


def compile_template(source: str) -> Any:
    """Compile a template in a sandbox. Raises ImportError if Jinja is missing, or a Jinja exception."""
    from jinja2.ext import loopcontrols  # Imported lazily: only models with a template need it.
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Tags(loopcontrols):
        """Loop control tags, and the `generation` block of templates for training."""

        tags = loopcontrols.tags | {"generation"}

        def parse(self, parser: Any) -> Any:
            if parser.stream.current.value != "generation":
                return super().parse(parser)
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Tags])
    environment.globals["raise_exception"] = _raise_template_error
    environment.globals["strftime_now"] = strftime  # the current date, for system prompts
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    return environment.from_string(source)


def _raise_template_error(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


_compiled = lru_cache(1)(compile_template)


def _render(source: str, variables: dict[str, Any]) -> dict[str, str]:
    """Return the prompt or the reason for a failure.

    The key is `prompt`, `fault` (an invalid template), `refusal` (by a template) or `excess` (over a limit).
    """
    kind, prompt, size = "fault", [], 0
    try:
        template = _compiled(source)
        kind = "refusal"
        for piece in template.generate(**variables):
            size += len(piece.encode(errors="replace"))
            if size > MAX_PROMPT_SIZE:
                return {"excess": f"writes more than {MAX_PROMPT_SIZE:,} bytes"}
            prompt.append(piece)
        kind, text = "prompt", "".join(prompt)
    except MemoryError:
        return {"excess": f"needs more than {MEMORY >> 20} MB of memory"}
    except OSError:  # its message would name a local file
        text = "it needs a file"
    except Exception as error:  # any kind: a template may concatenate text and null
        text = str(error)[:MAX_REASON_LENGTH] or type(error).__name__
    return {kind: text.encode(errors="replace").decode()}  # JSON cannot hold lone surrogates


def main() -> None:
    """Render lines until the input ends, without files or subprocesses and with little memory.

    A render that exceeds its CPU time terminates the process.
    """
    import resource

    sys.path.append(sys.argv[1])
    _render(WARM, {})
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for none in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):
        resource.setrlimit(none, (0, 0))
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        answer = json.dumps(_render(**json.loads(line)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(answer, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
