"""Jinja as chat templates need it. As a program, it renders a template whose author is not trusted.

The program imports Jinja alone, so it starts fast. Each line on the standard input is JSON: the template and its
variables. A line on the output answers it.
"""

import json
import signal
import sys
from functools import lru_cache
from time import strftime
from typing import Any

SECONDS = 0.5
"""Of the processor, for one line."""

MEMORY = 2**28
"""Bytes, a tenth of them of Python and Jinja."""

LARGEST_PROMPT = 1_000_000
"""Bytes."""

LONGEST_REASON = 500
"""Characters of a refusal, which a template may write."""

WARM = (
    "{{ [] | pprint ~ 'x' | wordwrap | striptags ~ lipsum(n=1) ~ strftime_now('%c') ~ raise_exception('x') }}"
)
"""Lets Jinja and Python import and read what they need late, before files are closed to the process."""


def compile_template(source: str) -> Any:
    """A template that may do nothing but write text. Raises ImportError without Jinja, or what Jinja raises."""
    from jinja2.ext import loopcontrols  # late: only models with a template need it
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Tags(loopcontrols):
        """Those of loops, and the block in which templates for training enclose answers."""

        tags = loopcontrols.tags | {"generation"}

        def parse(self, parser: Any) -> Any:
            if parser.stream.current.value != "generation":
                return super().parse(parser)
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Tags])
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = strftime  # the date, in the system prompts of some models
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    return environment.from_string(source)


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


_compiled = lru_cache(1)(compile_template)


def _answer(source: str, variables: dict[str, Any]) -> dict[str, str]:
    """The prompt, or why there is none: a `fault` of the template, a `refusal` by it, an `excess`."""
    kind, prompt, size = "fault", [], 0
    try:
        template = _compiled(source)
        kind = "refusal"
        for piece in template.generate(**variables):
            size += len(piece.encode(errors="replace"))
            if size > LARGEST_PROMPT:
                return {"excess": f"writes more than {LARGEST_PROMPT:,} bytes"}
            prompt.append(piece)
        kind, text = "prompt", "".join(prompt)
    except MemoryError:
        return {"excess": f"needs more than {MEMORY >> 20} MB of memory"}
    except OSError:  # its text would name a file of this machine
        text = "it needs a file"
    except Exception as error:  # of any kind: a template may add a text to what a client left out
        text = str(error)[:LONGEST_REASON] or type(error).__name__
    return {kind: text.encode(errors="replace").decode()}  # JSON has no place for lone surrogates


def main() -> None:
    """Answer lines until the input ends, without files, other processes and much memory. A limit of time ends it."""
    import resource

    sys.path.append(sys.argv[1])
    _answer(WARM, {})
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for none in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):
        resource.setrlimit(none, (0, 0))
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        answer = json.dumps(_answer(**json.loads(line)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(answer, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
