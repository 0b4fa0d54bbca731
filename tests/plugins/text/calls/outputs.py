"""Outputs of models, made with the truth of what they mean, by code that knows nothing of the parsers."""

import json
import random
from collections.abc import Callable
from typing import Any

Truth = list[tuple[str, Any]]
"""Texts and reasoning as they are; calls as a pair of name and arguments."""

WORDS = [
    "a",
    "tool",
    "call",
    "name",
    "[x]",
    "{y}",
    "<z>",
    "</z>",
    '"q"',
    "'r'",
    "\\",
    ";",
    ",",
    "[TOOL",
    "<tool",
    "<|py",
    "äöü",
    "日本",
    "🙂",
    "<function",
    "f(1)",
    "think",
]
NAMES = ["get_weather", "f", "search.web", "a-b"]


def words(random: random.Random, most: int = 6) -> str:
    return " ".join(random.choices(WORDS, k=random.randint(1, most)))


def plain(random: random.Random) -> str:
    """A text that begins and ends with a letter, and so with no space or bracket."""
    return f"I {words(random)} say"


def value(random: random.Random, depth: int = 0) -> Any:
    kind = random.randrange(8 if depth < 2 else 6)
    if kind < 2:
        return words(random)
    if kind < 6:
        return (random.randint(-9999, 9999), random.random(), random.choice([True, False]), None)[kind - 2]
    if kind == 6:
        return [value(random, depth + 1) for _ in range(random.randrange(3))]
    return {words(random, 1): value(random, depth + 1) for _ in range(random.randrange(3))}


def arguments(random: random.Random) -> dict[str, Any]:
    return {key: value(random) for key in random.sample(["city", "n", "a_b", "x"], random.randrange(4))}


def written(random: random.Random, value: Any) -> str:
    separators = random.choice([(",", ":"), (", ", ": ")])
    indent = random.choice([None, None, 2])
    return json.dumps(value, ensure_ascii=random.random() < 0.5, separators=separators, indent=indent)


def as_object(random: random.Random, name: str, given: dict[str, Any], key: str) -> str:
    order = random.choice(["first", "first", "last", "id"])
    if order == "last":
        return written(random, {key: given, "name": name})
    extra = {"id": "abc"} if order == "id" else {}
    return written(random, {"name": name, key: given, **extra})


def around(random: random.Random, truth: Truth) -> str:
    text = plain(random) if random.random() < 0.6 else ""
    if text and truth and truth[-1][0] == "text":
        truth[-1] = ("text", truth[-1][1] + text)
    elif text:
        truth.append(("text", text))
    return text


def calls(random: random.Random, least: int = 0) -> list[tuple[str, dict[str, Any]]]:
    return [(random.choice(NAMES), arguments(random)) for _ in range(random.randint(least, 3))]


def hermes(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    output = around(random, truth)
    for name, given in calls(random):
        space = random.choice(["", "\n", " \n"])
        output += f"<tool_call>{space}{as_object(random, name, given, 'arguments')}{space}</tool_call>{space}"
        truth.append(("call", (name, given)))
    return output + around(random, truth), truth


def mistral(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    output = around(random, truth)
    made = calls(random)
    if made and random.random() < 0.5:
        objects = [as_object(random, name, given, "arguments") for name, given in made]
        output += f"[TOOL_CALLS]{random.choice(['', ' '])}[{', '.join(objects)}]"
    else:
        for name, given in made:
            id = random.choice(["", "[CALL_ID]abc123DEF"])
            output += f"[TOOL_CALLS]{name}{id}[ARGS]{written(random, given)}"
    truth += [("call", each) for each in made]
    return output + around(random, truth), truth


def llama(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    made = calls(random)
    output = ""
    if made:
        if random.random() < 0.5:
            output = around(random, truth) + "<|python_tag|>"
        objects = [as_object(random, name, given, "parameters") for name, given in made]
        output += random.choice(["; ", ";", "\n"]).join(objects)
        truth += [("call", each) for each in made]
        return output, truth
    return around(random, truth), truth


def pythonic(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    made = [(name.replace("-", "_"), given) for name, given in calls(random)]
    if not made:
        return around(random, truth), truth
    texts = [f"{name}({', '.join(f'{key}={each!r}' for key, each in given.items())})" for name, given in made]
    listed = f"[{random.choice([', ', ',']).join(texts)}]"
    if random.random() < 0.3:
        listed = f"<|python_start|>{listed}<|python_end|>"
    truth += [("call", each) for each in made]
    return listed + around(random, truth), truth


SCHEMA = [{"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "object"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"properties": dict(zip(["city", "n", "a_b", "x"], SCHEMA, strict=True))},
        },
    }
    for name in NAMES
]


def qwen_coder(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    output = around(random, truth)
    for name, _ in calls(random):
        made = {
            "city": f"{words(random)}\n{words(random)}",
            "n": random.randint(0, 99),
            "a_b": random.random(),
        }
        made["x"] = {"k": [value(random)]}
        given = {key: made[key] for key in random.sample(list(made), random.randrange(5))}
        output += f"<tool_call>\n<function={name}>\n"
        for key, each in given.items():
            text = each if isinstance(each, str) else json.dumps(each)
            output += f"<parameter={key}>\n{text}\n</parameter>\n"
        output += "</function>\n</tool_call>" + random.choice(["", "\n"])
        truth.append(("call", (name, given)))
    return output + around(random, truth), truth


def harmony(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    messages = []
    if random.random() < 0.7:
        text = plain(random)
        messages.append(f"<|channel|>analysis<|message|>{text}<|end|>")
        truth.append(("reasoning", text))
    for name, given in calls(random):
        place = random.choice(["channel", "role"])
        begun = f" to=functions.{name}<|channel|>commentary " if place == "role" else ""
        begun = begun or f"<|channel|>commentary to=functions.{name} "
        constrained = random.choice(["", "<|constrain|>json"])
        messages.append(f"{begun}{constrained}<|message|>{written(random, given)}<|call|>")
        truth.append(("call", (name, given)))
    if random.random() < 0.6:
        text = plain(random)
        messages.append(f"<|channel|>final<|message|>{text}<|return|>")
        truth.append(("text", text))
    whole = "<|start|>assistant".join(["", *messages])
    first = len("<|start|>assistant")
    return (whole[first:] if whole.startswith("<|start|>assistant<|channel|>") else whole), truth


def glm(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    output = around(random, truth)
    for name, _ in calls(random):
        line = random.choice(["", "\n"])
        given = {"city": words(random), "n": random.randint(0, 99), "x": {"k": [value(random)]}}
        given = {key: given[key] for key in random.sample(list(given), random.randrange(4))}
        output += f"<tool_call>{name}{line}"
        for key, each in given.items():
            text = each if isinstance(each, str) else json.dumps(each)
            output += f"<arg_key>{key}</arg_key>{line}<arg_value>{text}</arg_value>{line}"
        output += "</tool_call>"
        truth.append(("call", (name, given)))
    return output + around(random, truth), truth


def kimi(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    output = around(random, truth)
    made = calls(random)
    section = [f"<|tool_calls_section_{edge}|>" if made else "" for edge in ("begin", "end")]
    output += section[0]
    for index, (name, given) in enumerate(made):
        head = f"<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>"
        output += f"{head}{written(random, given)}<|tool_call_end|>"
    truth += [("call", each) for each in made]
    return output + section[1] + around(random, truth), truth


def deepseek(random: random.Random) -> tuple[str, Truth]:
    truth: Truth = []
    output = around(random, truth)
    made = calls(random)
    output += "<｜tool▁calls▁begin｜>" if made else ""
    for name, given in made:
        if random.random() < 0.5:
            text = f"function<｜tool▁sep｜>{name}\n```json\n{written(random, given)}\n```"
        else:
            text = f"{name}<｜tool▁sep｜>{written(random, given)}"
        output += f"<｜tool▁call▁begin｜>{text}<｜tool▁call▁end｜>{random.choice(['', chr(10)])}"
    truth += [("call", each) for each in made]
    return output + ("<｜tool▁calls▁end｜>" if made else "") + around(random, truth), truth


def thinking(random: random.Random) -> tuple[str, Truth]:
    """Reasoning in front of calls of Hermes."""
    reasoning = plain(random)
    output, truth = hermes(random)
    space = random.choice(["", "\n", "\n\n"])
    return f"{space}<think>{space}{reasoning}</think>{space}{output}", [("reasoning", reasoning), *truth]


FORMATS: dict[str, Callable[[random.Random], tuple[str, Truth]]] = {
    "hermes": hermes,
    "mistral": mistral,
    "llama": llama,
    "pythonic": pythonic,
    "qwen_coder": qwen_coder,
    "harmony": harmony,
    "glm": glm,
    "kimi": kimi,
    "deepseek": deepseek,
    "thinking": thinking,
}
