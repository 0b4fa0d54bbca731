"""What models of each family really write: the same calls and reasoning, however the text is split."""

import json
import random
from typing import Any

import pytest

from inferstream.plugins.text.calls.formats import create_parser
from inferstream.plugins.text.calls.parser import Delta
from tests.plugins.text.calls.test_parser import split

SCHEMA = {
    "properties": {"path": {"type": "string"}, "n": {"type": "integer"}, "filter": {"type": "object"}},
    "required": ["path"],
}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("ls", "time")
]
LS = ("ls", {"path": "src"})
TIME = ("time", {})
LINES = ("ls", {"path": 'line 1\nline\t2 "q" \\n'})
BARE_LINES = '{"path": "line 1\nline\t2 \\"q\\" \\\\n"}'
OBJECT = '{"name": "ls", "arguments": {"path": "src"}}'
TYPED = '{"name": "ls", "parameters": {"path": "src"}}'
FUNCTION = "<function=ls>\n<parameter=path>\nsrc\n</parameter>\n</function>"

ARGUMENTS = '{"path": "src"}'
KIMI = f"<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>"
DEEPSEEK31 = f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ls<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>"
DEEPSEEK3 = f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ls\n```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜>"
GLM = (
    "<tool_call>ls\n<arg_key>path</arg_key>\n<arg_value>src</arg_value>\n<arg_key>n</arg_key>\n<arg_value>7</arg_value>\n"
    '<arg_key>filter</arg_key>\n<arg_value>{"a": "</tool_call>é"}</arg_value>\n</tool_call>'
)
INVOKE = '<invoke name="ls">\n<parameter name="path">src</parameter>\n</invoke>'
DSML = '<｜DSML｜invoke name="ls">\n<｜DSML｜parameter name="path" string="true">src</｜DSML｜parameter>\n</｜DSML｜invoke>'
GEMMA_OBJECT = '{path:<|"|>src<|"|>}'
GEMMA = f"<|tool_call>call:ls{GEMMA_OBJECT}<tool_call|>"
ACTION = '{"tool_call_id": "0", "tool_name": "ls", "parameters": {"path": "src"}}'

ROWS: dict[str, list[tuple[str, str, list[Any]]]] = {
    "hermes": [
        ("line breaks", f'<tool_call>\n{{"name": "ls", "arguments": {BARE_LINES}}}\n</tool_call>', [LINES]),
        ("keys in another order", f'<tool_call>{{"arguments": {BARE_LINES}, "name": "ls"}}</tool_call>', [LINES]),
        ("no opening", f"{OBJECT}\n</tool_call>", [LS]),
        ("no opening nor end", OBJECT, [LS]),
        ("no opening behind a sentence", f"I look.\n\n{OBJECT}\n</tool_call>", ["I look.\n", LS]),
        ("no opening of the second", f"<tool_call>{OBJECT}</tool_call>\n{OBJECT}</tool_call>", [LS, LS]),
        ("no end", f"<tool_call>{OBJECT}\n<tool_call>{OBJECT}", [LS, LS]),
        ("two in one", f"<tool_call>\n{OBJECT}\n{OBJECT}\n</tool_call>", [LS, LS]),
        ("a bracket too few", f"<tool_call>{OBJECT[:-1]}</tool_call>", [LS]),
        ("no arguments", '<tool_call>{"name": "time"}</tool_call>', [TIME]),
        ("arguments that are null", '<tool_call>{"name": "time", "arguments": null}</tool_call>', [TIME]),
        (
            "arguments as a text of JSON",
            '<tool_call>{"name": "ls", "arguments": "{\\"path\\": \\"src\\"}"}</tool_call>',
            [LS],
        ),
        ("escapes of Python", r'<tool_call>{"name": "ls", "arguments": {"path": "it\'s \d"}}</tool_call>',
         [("ls", {"path": r"it's \d"})]),
        ("no JSON", f"<tool_call>{OBJECT.replace(ARGUMENTS, '{path: 1}')}</tool_call>",
         [f"<tool_call>{OBJECT.replace(ARGUMENTS, '{path: 1}')}</tool_call>"]),
        ("an answer in JSON", '{"name": "Bob", "arguments": {"a": 1}}', ['{"name": "Bob", "arguments": {"a": 1}}']),
        ("an object in a text", 'So:\n{"answer": {"x": 1}}\nyes', ['So:\n{"answer": {"x": 1}}\nyes']),
    ],
    "llama": [
        ("line breaks", f'<|python_tag|>{{"name": "ls", "parameters": {BARE_LINES}}}', [LINES]),
        ("with a type", '{"type": "function", "name": "ls", "parameters": {"path": "src"}}', [LS]),
        ("with a function", f'{{"type": "function", "function": {TYPED}}}', [LS]),
        ("called arguments", OBJECT, [LS]),
        ("several", f"<|python_tag|>{TYPED}; {TYPED}", [LS, LS]),
        ("behind a sentence", f"I look.\n{TYPED}", ["I look.", LS]),
        ("a bracket too few", TYPED[:-1], [LS]),
    ],
    "mistral": [
        ("a list", f"[TOOL_CALLS] [{OBJECT}, {OBJECT}]", [LS, LS]),
        ("names", '[TOOL_CALLS]ls[ARGS]{"path": "src"}[TOOL_CALLS]time{}', [LS, TIME]),
        ("line breaks", f"[TOOL_CALLS]ls[CALL_ID]abc123DEF[ARGS]{BARE_LINES}", [LINES]),
        ("a name of the letters of JSON", '[TOOL_CALLS]json{"path": "src"}', [("json", LS[1])]),
        ("without its token", f"[{OBJECT}]", [LS]),
        ("a list of others", "[1, 2]", ["[1, 2]"]),
    ],
    "pythonic": [
        ("constants of JSON", "[ls(path='src', filter={'a': true, 'b': [null]})]",
         [("ls", {"path": "src", "filter": {"a": True, "b": [None]}})]),
        ("several", "[ls(path='src'), time()]", [LS, TIME]),
        ("a name with dashes", "[a.b-c(path='src')]", [("a.b-c", LS[1])]),
        ("Llama 4 behind a text", "I look.<|python_start|>[ls(path='src')]<|python_end|>", ["I look.", LS]),
        ("LFM 2", "<|tool_call_start|>[ls(path='src'), time()]<|tool_call_end|>yes", [LS, TIME, "yes"]),
        ("OLMo 3", "<function_calls>\nls(path='src')\ntime()\n</function_calls>", [LS, TIME]),
        ("Gemma", "I look.\n```tool_code\nls(path='s\\\\x')\nprint(time())\n```\nyes",
         ["I look.\n", ("ls", {"path": "s\\x"}), TIME, "yes"]),
        ("code of Gemma", "```tool_code\nimport os\n```", ["```tool_code\nimport os\n```"]),
    ],
    "qwen_coder": [
        ("no opening", f"{FUNCTION}\n</tool_call>", [LS]),
        ("no opening behind a sentence", f"I look. {FUNCTION}\n</tool_call>", ["I look. ", LS]),
        ("no opening nor end", f"{FUNCTION}\n{FUNCTION}", [LS, LS]),
        ("the end of no parameter", "<tool_call>\n<function=ls>\n<parameter=path>\nsrc\n<parameter=n>\n7\n</function>\n"
         "</tool_call>", [("ls", {"path": "src", "n": 7})]),
        ("no end of the function", f"<tool_call>\n{FUNCTION.removesuffix('</function>')}</tool_call>", [LS]),
        ("line breaks in an object", FUNCTION.replace("path", "filter").replace("src", '{"a": "x\ny"}'),
         [("ls", {"filter": {"a": "x\ny"}})]),
        ("several of Seed", f"I look.<seed:tool_call>\n{FUNCTION}\n</seed:tool_call><seed:tool_call>\n{FUNCTION}"
         "\n</seed:tool_call>", ["I look.", LS, LS]),
        ("no end of Seed", f"<seed:tool_call>{FUNCTION.removesuffix('</function>')}", [LS]),
        ("about the syntax", "The syntax is <function=name> for all.", ["The syntax is <function=name> for all."]),
        ("lists and dicts of Python", FUNCTION.replace("path", "filter").replace("src", "{'a': True, 'b': [None, 'x']}"),
         [("ls", {"filter": {"a": True, "b": [None, "x"]}})]),
        ("a number as a text, and a text as a number", FUNCTION.replace("src", "7").replace(
            "</function>", "<parameter=n>\n7.0\n</parameter>\n</function>"), [("ls", {"path": "7", "n": 7.0})]),
        ("an object, as Llama 3.1", f"<function=ls>{ARGUMENTS}</function>", [LS]),
        ("objects of several", f"I look. <function=ls>{ARGUMENTS}</function>\n<function=time>{{}}</function>",
         ["I look. ", LS, TIME]),
    ],
    "harmony": [
        ("line breaks", f"<|channel|>commentary to=functions.ls <|constrain|>json<|message|>{BARE_LINES}<|call|>",
         [LINES]),
        ("in the channel of thoughts", '<|channel|>analysis to=functions.ls code<|message|>{"path": "src"}<|call|>',
         [LS]),
        ("a channel behind the function", "<|start|>assistant<|channel|>commentary to=functions.ls<|channel|>commentary json"
         '<|message|>{"path": "src"}<|call|>', [LS]),
        ("marks in a wrong order", '<|channel|>commentary to=functions.ls <|constrain|>json<|channel|>commentary<|constrain|>'
         'json<|message|>{"path": "src"}<|call|>', [LS]),
        ("a name as a channel", "<|start|>assistant<|channel|>bash<|channel|>analysis<|message|>hm<|end|>", [["hm"]]),
        ("an end in a header", "<|channel|>analysis<|constrain|>x<|end|><|start|>assistant<|channel|>final<|message|>yes", ["yes"]),
        ("two channels", "<|channel|>analysis<|channel|>final<|message|>yes<|return|>", ["yes"]),
        ("a form of the answer", '<|channel|>final <|constrain|>json<|message|>{"a": 1}<|return|>', ['{"a": 1}']),
        ("no namespace", '<|start|>assistant to=ls<|channel|>commentary json<|message|>{"path": "src"}<|call|>', [LS]),
        ("no namespace, and no tool", "<|channel|>commentary to=browser<|message|>yes<|end|>", ["yes"]),
        ("two calls and a preamble", "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary"
         ' to=functions.ls<|message|>{"path": "src"}<|call|><|start|>assistant<|channel|>commentary to=functions.time'
         "<|message|>{}<|call|>", ["I look.", LS, TIME]),
        ("behind the constraint", '<|channel|>commentary<|constrain|>json to=functions.ls<|message|>{"path": "src"}',
         [LS]),
    ],
    "kimi": [
        ("several", f"I look. {KIMI}{KIMI.replace('ls:0', 'time:1').replace(ARGUMENTS, '{}')}"
         "<|tool_calls_section_end|>", ["I look. ", LS, TIME]),
        ("spaces and line breaks", KIMI.replace(":0", ":0 ").replace(ARGUMENTS, f"{BARE_LINES} "), [LINES]),
        ("no section, no prefix", KIMI[len("<|tool_calls_section_begin|>"):].replace("functions.", ""), [LS]),
        ("a name with dots and dashes", KIMI.replace("ls:0", "a.b-c:10"), [("a.b-c", LS[1])]),
        ("no arguments", KIMI.replace(ARGUMENTS, ""), [("ls", {})]),
        ("markers inside a string", KIMI.replace("src", "<|tool_call_end|>"), [("ls", {"path": "<|tool_call_end|>"})]),
        ("no end", KIMI.removesuffix("<|tool_call_end|>"), [LS]),
        ("no JSON", KIMI.replace(ARGUMENTS, "{path: 1}"), [KIMI.replace(ARGUMENTS, "{path: 1}")]),
        ("no object", KIMI.replace(ARGUMENTS, "no"), [KIMI.replace(ARGUMENTS, "no")]),
    ],
    "deepseek": [
        ("3.1", f"I look.{DEEPSEEK31}<｜tool▁calls▁end｜>", ["I look.", LS]),
        ("3.1, a function that is called function", DEEPSEEK31.replace(">ls<", ">function<"), [("function", LS[1])]),
        ("3 and R1, several", f"{DEEPSEEK3}\n{DEEPSEEK3}<｜tool▁calls▁end｜>\nyes",
         [LS, LS, "yes"]),
        ("no section", DEEPSEEK31[len("<｜tool▁calls▁begin｜>"):], [LS]),
        ("no end", DEEPSEEK3.removesuffix("\n```<｜tool▁call▁end｜>"), [LS]),
        ("no arguments", DEEPSEEK31.replace(ARGUMENTS, ""), [("ls", {})]),
        ("no object", "<｜tool▁calls▁begin｜>yes", ["<｜tool▁calls▁begin｜>yes"]),
    ],
    "glm": [
        ("4.5", GLM, [("ls", {"path": "src", "n": 7, "filter": {"a": "</tool_call>é"}})]),
        ("4.7, several", "I look.<tool_call>ls<arg_key>path</arg_key><arg_value>src</arg_value></tool_call>"
         "<tool_call>time</tool_call>", ["I look.", LS, TIME]),
        ("no end", GLM.removesuffix("</arg_value>\n</tool_call>"),
         [("ls", {"path": "src", "n": 7, "filter": {"a": "</tool_call>é"}})]),
        ("no arguments", "<tool_call>time\n</tool_call>", [TIME]),
        ("a text", "<tool_call> is a tag, <b>bold</b>", ["<tool_call> is a tag, <b>bold</b>"]),
    ],
    "minimax": [
        ("several", f"I look.\n<minimax:tool_call>\n{INVOKE}\n{INVOKE}\n</minimax:tool_call>", ["I look.\n", LS, LS]),
        ("no opening nor end", INVOKE.removesuffix("\n</invoke>"), [LS]),
        ("typed", INVOKE.replace('"path">src', '"n">7'), [("ls", {"n": 7})]),
        ("markup", INVOKE.replace("src", "<a></invoke>\n"), [("ls", {"path": "<a></invoke>"})]),
        ("about the syntax", '<invoke name="x">', ['<invoke name="x">']),
    ],
    "deepseek_v32": [
        ("several", f"I look.\n\n<｜DSML｜function_calls>\n{DSML}\n{DSML}\n</｜DSML｜function_calls>",
         ["I look.\n\n", LS, LS]),
        ("a text that is a number", DSML.replace(">src<", ">7<"), [("ls", {"path": "7"})]),
        ("JSON", DSML.replace('path" string="true">src', 'filter" string="false">{"a": [1]}'),
         [("ls", {"filter": {"a": [1]}})]),
        ("an object", DSML.replace('<｜DSML｜parameter name="path" string="true">src</｜DSML｜parameter>', ARGUMENTS), [LS]),
        ("no arguments, and no end", '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="time">\n', [TIME]),
        ("no section", f"I look. {DSML}", ["I look. ", LS]),
        ("about the syntax", "Write <｜DSML｜invoke> tags", ["Write <｜DSML｜invoke> tags"]),
    ],
    "gemma": [
        ("4", f"I look.{GEMMA}{GEMMA.replace('ls', 'time').replace(GEMMA_OBJECT, '{}')}", ["I look.", LS, TIME]),
        ("FunctionGemma", "<start_function_call>call:ls{path:<escape>src<escape>,n:7}<end_function_call>"
         "<start_function_response>", [("ls", {"path": "src", "n": 7}), "<start_function_response>"]),
        ("objects, lists and constants", GEMMA.replace(GEMMA_OBJECT, '{filter:{a_b:[<|"|>x<|"|>,{c:true}],d:null},n:-1.5}'),
         [("ls", {"filter": {"a_b": ["x", {"c": True}], "d": None}, "n": -1.5})]),
        ("markers and brackets inside a string", GEMMA.replace("src", '}]{"<tool_call|>a:1,\n'),
         [("ls", {"path": '}]{"<tool_call|>a:1,\n'})]),
        ("no end", f"{GEMMA.removesuffix('<tool_call|>')}\n{GEMMA}", [LS, LS]),
        ("spaces", "<|tool_call> call: ls {path : <|\"|>src<|\"|>, n: 7}\nyes", [("ls", {"path": "src", "n": 7}), "yes"]),
        ("quotes inside a string", GEMMA.replace("src", 's("<|"|><|"|><|"|>a b<|"|>, 1)<|"|>'.replace('<|"|>, ', '<|"|>; ')),
         [("ls", {"path": 's(""""a b"; 1)"'})]),
        ("other quotes and none", """<|tool_call>call:ls{path:src dir,filter:{"a":['x',"y",z],b:'it\\'s'}}<tool_call|>""",
         [("ls", {"path": "src dir", "filter": {"a": ["x", "y", "z"], "b": "it's"}})]),
        ("no JSON", "<|tool_call>call:ls{path:a:b}<tool_call|>", ["<|tool_call>call:ls{path:a:b}<tool_call|>"]),
        ("a text", "<|tool_call> is a token, {a}", ["<|tool_call> is a token, {a}"]),
    ],
    "nemotron": [
        ("several", f"I look.<TOOLCALL>[{OBJECT}, {OBJECT}]</TOOLCALL>", ["I look.", LS, LS]),
        ("no end", f"<TOOLCALL>[{OBJECT}]", [LS]),
        ("no list", f"<TOOLCALL>{OBJECT}</TOOLCALL>\nyes", [LS, "yes"]),
    ],
    "hunyuan": [("several", f"I look.<tool_calls>[{OBJECT}, {OBJECT}]</tool_calls>", ["I look.", LS, LS])],
    "xlam": [
        ("a list", f"[{OBJECT}, {OBJECT}]", [LS, LS]),
        ("a function of any name", f"[{OBJECT.replace('ls', 'find')}]", [("find", LS[1])]),
        ("a fence", f"I look.\n```json\n[{OBJECT}]\n```", ["I look.\n", LS]),
        ("markers of others", f"[TOOL_CALLS][{OBJECT}]<tool_call>{OBJECT}</tool_call>", [LS, LS]),
        ("a fence of others", "```json\n[1]\n```", ["```json\n[1]\n```"]),
    ],
    "cohere": [
        ("several", f"<|START_ACTION|>[\n    {ACTION},\n    {ACTION}\n]<|END_ACTION|>", [LS, LS]),
        ("the first Command R", "Action: ```json\n[" + ACTION.replace('"tool_call_id": "0", ', "") + "]\n```", [LS]),
        ("a text", "Action: none", ["Action: none"]),
    ],
    "granite": [
        ("a list", f"<|tool_call|>[{OBJECT}, {OBJECT}]", [LS, LS]),
        ("a tag", f"<tool_call>[{OBJECT}]", [LS]),
        ("objects", f"<function_call> {OBJECT}\n<function_call>{OBJECT}", [LS, LS]),
        ("an empty list", "<|tool_call|>[]", ["<|tool_call|>[]"]),
    ],
    "phi": [
        ("functools", f"I look.\nfunctools[\n  {OBJECT},\n  {OBJECT}\n]\nyes", ["I look.\n", LS, LS, "yes"]),
        ("an object", f"<|tool_call|>{TYPED}<|/tool_call|>", [LS]),
        ("a list", f"<|tool_call|>[{OBJECT}]<|/tool_call|>", [LS]),
        ("a module", "use functools for it", ["use functools for it"]),
    ],
    "minimax_m1": [
        ("lines", f"I look. <tool_calls>\n{OBJECT}\n{OBJECT}\n</tool_calls>", ["I look. ", LS, LS]),
        ("a list", f"<tool_calls>[{OBJECT}]</tool_calls>", [LS]),
        ("no end", f"<tool_calls>\n{OBJECT}", [LS]),
    ],
}  # fmt: skip


def meant(deltas: list[Delta]) -> list[Any]:
    """Texts, pairs of a call's name and arguments, and reasoning as a list of one text."""
    found: list[Any] = []
    for kind, text in deltas:
        if kind == "id":
            continue
        if kind == "call":
            found.append((text, ""))
        elif kind == "arguments":
            found[-1] = (found[-1][0], found[-1][1] + text)
        elif kind == "reasoning":
            found += [] if found and type(found[-1]) is list else [[""]]
            found[-1][0] += text
        else:
            found += [] if found and type(found[-1]) is str else [""]
            found[-1] += text
    return [(each[0], json.loads(each[1])) if type(each) is tuple else each for each in found]


def read(pieces: list[str], calls: str | None, reasoning: str | None, prompt: str | None = None) -> list[Any]:
    parser = create_parser(calls, reasoning, TOOLS, prompt)
    assert parser is not None
    deltas = [delta for piece in pieces for delta in parser.push(piece)]
    return meant([*deltas, *parser.finish()])


def check(text: str, right: list[Any], *formats: str | None) -> None:
    """The same at once, cut at each place, letter by letter, and at many places."""
    made = random.Random(text)
    cuts = [[text], [*text], *([text[:at], text[at:]] for at in range(len(text)))]
    for pieces in [*cuts, *(split(made, text) for _ in range(20))]:
        assert read(pieces, *formats) == right, pieces


@pytest.mark.parametrize(
    ("format", "text", "right"),
    [
        pytest.param(format, text, right, id=f"{format}: {name}")
        for format, rows in ROWS.items()
        for name, text, right in rows
    ],
)
def test_call_formats_of_models(format: str, text: str, right: list[Any]) -> None:
    check(text, right, format, None)
    if format != "harmony":
        check(f"<think>\nhm</think>\n\n{text}", [["hm"], *right], format, "think")


CALL = f"<tool_call>\n{OBJECT}\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "reasoning", "prompt", "right"),
    [
        ("<think>\nhm\n</think>\n\nyes", "think", None, [["hm\n"], "yes"]),
        ("hm\n</think>\n\nyes", "think_open", None, [["hm\n"], "yes"]),
        ("<think>hm</think>yes", "think_open", None, [["hm"], "yes"]),
        ("hm</think>yes", "think", "a<think>\n", [["hm"], "yes"]),
        ("yes", "think_open", "a<think>\n\n</think>\n\n", ["yes"]),
        ("yes", "think", "what is <think>? ", ["yes"]),
        ("hm</think>yes", "think_open", "a", [["hm"], "yes"]),
        ("<think>hm", "think", None, [["hm"]]),
        ("hm</thi", "think", "<think>", [["hm</thi"]]),
        ("hm\n</think>", "think", "<think>", [["hm\n"]]),
        (f"hm\n</think>\n\n{CALL}", "think", "<think>", [["hm\n"], LS]),
        (f"hm\n{CALL}", "think", "<think>", [["hm\n"], LS]),
        (
            "I would write <tool_call> here</think>yes",
            "think",
            "<think>",
            [["I would write <tool_call> here"], "yes"],
        ),
        ("<seed:think>hm</seed:think>yes", "seed", None, [["hm"], "yes"]),
        ("[THINK]hm[/THINK]yes [THINK]", "mistral", None, [["hm"], "yes [THINK]"]),
        (
            "<|START_THINKING|> hm<|END_THINKING|>\n<|START_RESPONSE|>yes<|END_RESPONSE|>",
            "cohere",
            None,
            [["hm"], "yes"],
        ),
        ("hm<|END_THINKING|>yes", "cohere", "a<|START_THINKING|>", [["hm"], "yes"]),
        ("<|START_RESPONSE|>yes<|END_RESPONSE|>", "cohere", None, ["yes"]),
        ("Here is my thought process:\nhm\nHere is my response:\nyes", "granite", None, [["hm\n"], "yes"]),
        ("Here's my thought process: hm Here's my response: yes", "granite", None, [["hm "], "yes"]),
        ("<think>hm</think><response>yes</response>", "granite", None, [["hm"], "yes"]),
        ("Here is my answer", "granite", None, ["Here is my answer"]),
        ("<think>\nhm\n</think>\n<answer>\nyes\n</answer>", "hunyuan", None, [["hm\n"], "\nyes\n"]),
        ("<|channel>thought\nhm<channel|>yes", "gemma", None, [["hm"], "yes"]),
        ("yes", "gemma", None, ["yes"]),
    ],
)
def test_reasoning_formats_of_models(text: str, reasoning: str, prompt: str | None, right: list[Any]) -> None:
    check(text, right, "hermes", reasoning, prompt)


def test_kimi_calls_end_reasoning_and_keep_ids() -> None:
    check(f"<think>hm{KIMI}", [["hm"], LS], "kimi", "think")
    parser = create_parser("kimi", None, TOOLS)
    assert parser is not None
    assert parser.push(KIMI)[0] == ("id", "functions.ls:0")
