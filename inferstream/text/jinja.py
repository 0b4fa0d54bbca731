"""Jinja as chat templates need it. As a program, it renders one template whose author is not trusted.

The program imports Jinja alone, so it starts fast. It reads JSON from the standard input, line by line, and answers
each line on the output: the first line has the template, each later one the variables of a prompt.
"""

import json
import signal
import sys
from time import strftime
from typing import Any

SECONDS = 0.5
"""Of the processor, to compile a template, and to render a prompt."""

MEMORY = 2**28
"""Bytes beyond those of Python and Jinja."""

LARGEST_PROMPT = 1_000_000
"""Bytes."""

WARM = "{{ [] | pprint ~ lipsum(n=1) ~ raise_exception('x') }}"
"""Imports the modules that Jinja imports late, before files are closed to the process."""

LONGEST_REASON = 500
"""Characters of a refusal, which a template may write."""


def compile_template(source: str) -> Any:
    """A template that may do nothing but write text. Raises ImportError without Jinja, or what Jinja raises."""
    from jinja2.ext import Extension, loopcontrols  # late: only models with a template need it
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The block in which templates for training enclose answers; its content is written as it is."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = strftime  # the date, in the system prompts of some models
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    return environment.from_string(source)


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _limit() -> None:
    """Allow this process little memory, and no further file or process."""
    import resource

    strftime("%c")  # reads the time zone from its file
    with open("/proc/self/statm", "rb") as sizes:
        memory = MEMORY + int(sizes.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for none in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):
        resource.setrlimit(none, (0, 0))


def _answer(template: Any, line: bytes) -> dict[str, str]:
    """The prompt, why the template refuses its variables, or what it takes too much of."""
    prompt, size = [], 0
    try:
        for piece in template.generate(**json.loads(line)):
            size += len(piece.encode(errors="replace"))
            if size > LARGEST_PROMPT:
                return {"excess": f"writes more than {LARGEST_PROMPT:,} bytes"}
            prompt.append(piece)
        return {"prompt": _clean("".join(prompt))}
    except MemoryError:
        prompt.clear()
        return {"excess": f"needs more than {MEMORY >> 20} MB of memory"}
    except Exception as error:  # of any kind: a template may add a text to what a client left out
        return {"refusal": _reason(error)}


def _clean(text: str) -> str:
    """A text without lone surrogates, which JSON has no place for."""
    return text.encode(errors="replace").decode()


def _reason(error: Exception) -> str:
    return _clean((str(error) or type(error).__name__)[:LONGEST_REASON])


def main() -> None:
    """Serve lines until the input ends. Each has a limit of processor time, which ends the process."""
    sys.path.append(sys.argv[1])
    _answer(compile_template(WARM), b"{}")
    _limit()
    template = None
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            if template is None:
                template, answer = compile_template(json.loads(line)), {}
            else:
                answer = _answer(template, line)
        except Exception as error:
            answer = {"refusal": _reason(error)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
