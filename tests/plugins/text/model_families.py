"""Chat templates in the shape of well-known model families, written for these tests."""

CHATML = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

QWEN25 = """{%- for m in messages %}
{%- if m.role in ('user', 'system') or (m.role == 'assistant' and not m.tool_calls) %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}{{- '<|im_start|>assistant' }}
{%- if m.content %}{{- '\\n' + m.content }}{%- endif %}
{%- for c in m.tool_calls %}{%- set c = c.function %}
{{- '\\n<tool_call>\\n{"name": "' + c.name + '", "arguments": ' }}{{ c.arguments | tojson }}{{- '}\\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif m.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}"""

QWEN35 = """{%- for m in messages %}{%- if m.role == 'system' %}
{%- if not loop.first %}{{- raise_exception('System message must be at the beginning.') }}{%- endif %}
{{- '<|im_start|>system\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'user' %}{{- '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}{{- '<|im_start|>assistant\\n' }}
{%- if m.reasoning_content is string %}{{- '<think>' + m.reasoning_content + '</think>' }}{%- endif %}{{- m.content }}
{%- for c in m.tool_calls or [] %}{{- '<tool_call>\\n<function=' + c.function.name + '>\\n' }}
{%- for k, v in c.function.arguments | items %}{{- '<parameter=' + k + '>\\n' ~ v ~ '\\n</parameter>\\n' }}{%- endfor %}
{{- '</function>\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif m.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>' + m.content + '</tool_response><|im_end|>\\n' }}
{%- else %}{{- raise_exception('Unexpected message role.') }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}"""

LLAMA2 = """{%- if messages[0]['role'] == 'system' %}{%- set rest = messages[1:] %}{%- set s = messages[0]['content'] %}
{%- else %}{%- set rest = messages %}{%- set s = false %}{%- endif %}
{%- for m in rest %}{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{%- endif %}
{%- if m['role'] == 'user' %}
{{- bos_token + '[INST] ' + ('<<SYS>>\\n' + s + '\\n<</SYS>>\\n\\n' if loop.first and s else '') + m['content'].strip() + ' [/INST]' }}
{%- elif m['role'] == 'assistant' %}{{- ' ' + m['content'] + ' ' + eos_token }}{%- endif %}{%- endfor %}"""

LLAMA31 = """{{- bos_token }}{%- for m in messages %}
{%- if not (m.role == 'ipython' or m.role == 'tool' or 'tool_calls' in m) %}
{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}
{%- elif 'tool_calls' in m %}
{%- if m.tool_calls | length != 1 %}{{- raise_exception('This model only supports single tool-calls at once!') }}{%- endif %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + m.tool_calls[0].function.name + '", "parameters": ' }}
{{- m.tool_calls[0].function.arguments | tojson }}{{- '}<|eot_id|>' }}
{%- else %}{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}{{- m.content | tojson }}{{- '<|eot_id|>' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"""

MISTRAL = """{%- if messages[0].role == 'system' %}{%- set s = messages[0].content %}{%- set rest = messages[1:] %}
{%- else %}{%- set rest = messages %}{%- endif %}{%- set ns = namespace(index=0) %}
{%- for m in rest %}{%- if not (m.role == 'tool' or (m.tool_calls is defined and m.tool_calls is not none)) %}
{%- if (m.role == 'user') != (ns.index % 2 == 0) %}
{{- raise_exception('After the optional system message, roles must alternate') }}{%- endif %}
{%- set ns.index = ns.index + 1 %}{%- endif %}{%- endfor %}
{{- bos_token }}{%- for m in rest %}
{%- if m.role == 'user' %}{{- '[INST] ' + (s + '\\n\\n' if loop.first and s is defined else '') + m.content + '[/INST]' }}
{%- elif m.tool_calls is defined and m.tool_calls is not none %}{{- '[TOOL_CALLS] [' }}
{%- for c in m.tool_calls %}{%- if c.id | length != 9 %}
{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif %}
{{- (c.function | tojson)[:-1] + ', "id": "' + c.id + '"}' }}{{- ', ' if not loop.last else ']' + eos_token }}{%- endfor %}
{%- elif m.role == 'assistant' %}{{- ' ' + m.content | trim + eos_token }}
{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS] {"content": ' + m.content | string + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else %}{{- raise_exception('Only user and assistant roles are supported') }}{%- endif %}{%- endfor %}"""

GEMMA2 = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{{- '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

GPT_OSS = """{{- '<|start|>system<|message|>Reasoning: ' + (reasoning_effort or 'medium') + '<|end|>' }}
{%- if messages[0].role in ('developer', 'system') %}{%- set rest = messages[1:] %}
{{- '<|start|>developer<|message|># Instructions\\n\\n' + messages[0].content + '<|end|>' }}
{%- else %}{%- set rest = messages %}{%- endif %}{%- set last = namespace(name=none) %}
{%- for m in rest %}
{%- if m.role == 'assistant' and m.tool_calls %}
{%- if m.content and m.thinking %}{{- raise_exception('Cannot pass both content and thinking') }}{%- endif %}
{%- if m.content or m.thinking %}{{- '<|start|>assistant<|channel|>analysis<|message|>' + (m.content or m.thinking) + '<|end|>' }}{%- endif %}
{%- for c in m.tool_calls %}{{- '<|start|>assistant to=functions.' + c.function.name + '<|channel|>commentary json<|message|>' }}
{{- c.function.arguments | tojson }}{{- '<|call|>' }}{%- set last.name = c.function.name %}{%- endfor %}
{%- elif m.role == 'assistant' %}{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
{%- elif m.role == 'tool' %}{%- if last.name is none %}
{{- raise_exception('Message has tool role, but there was no previous assistant message with a tool call!') }}{%- endif %}
{{- '<|start|>functions.' + last.name + ' to=assistant<|channel|>commentary<|message|>' }}{{- m.content | tojson }}{{- '<|end|>' }}
{%- elif m.role == 'user' %}{{- '<|start|>user<|message|>' + m.content + '<|end|>' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""

DEEPSEEK = """{%- set ns = namespace(s='') %}{%- for m in messages %}{%- if m.role == 'system' %}
{%- set ns.s = ns.s + ('\\n\\n' if ns.s else '') + m.content %}{%- endif %}{%- endfor %}{{- bos_token + ns.s }}
{%- for m in messages %}{%- if m.role == 'user' %}{{- '<User>' + m.content }}{%- endif %}
{%- if m.role == 'assistant' and m.content is none %}{{- '<Assistant><calls>' }}
{%- for c in m.tool_calls %}{{- '<call>' + c.type + '<sep>' + c.function.name + '\\n```json\\n' + c.function.arguments + '\\n```</call>' }}
{%- endfor %}{{- '</calls>' + eos_token }}{%- endif %}
{%- if m.role == 'assistant' and m.content is not none %}{{- '<Assistant>' + m.content + eos_token }}{%- endif %}
{%- if m.role == 'tool' %}{{- '<outputs><output>' + m.content + '</output></outputs>' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<Assistant>' }}{%- endif %}"""

PHI4 = """{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}
{%- for c in m.tool_calls or [] %}{{ '<|tool_call|>' + c.function | tojson + '<|/tool_call|>' }}{% endfor %}{{ '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""

SMOLLM3 = """{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}{%- set content = m.content if m.content is string else '' %}
{%- if m.role == 'user' %}{{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}{% generation %}{{- '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' }}{% endgeneration %}
{%- elif m.role == 'tool' %}{{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

GLM45 = """[gMASK]<sop>{%- for m in messages %}
{%- if m.role in ('user', 'system') %}<|{{ m.role }}|>
{{ m.content }}{%- elif m.role == 'assistant' %}<|assistant|>
{{ m.content.strip() }}{%- for c in m.tool_calls or [] %}{%- set c = c.function %}
{{ '\\n<tool_call>' + c.name }}
{%- for k, v in c.arguments.items() %}<arg_key>{{ k }}</arg_key><arg_value>{{ v | tojson if v is not string else v }}</arg_value>{%- endfor %}</tool_call>
{%- endfor %}{%- elif m.role == 'tool' %}<|observation|><tool_response>{{ m.content }}</tool_response>{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{{ '<think></think>' if enable_thinking is defined and not enable_thinking else '' }}{%- endif %}"""

GRANITE = """{%- if messages[0].role == 'system' %}{%- set s = messages[0].content %}{%- set rest = messages[1:] %}
{%- else %}{%- set s = 'Knowledge Cutoff Date: April 2024.' %}{%- set rest = messages %}{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + s + '<|end_of_text|>\\n' }}
{%- for m in rest %}{{- '<|start_of_role|>' + m.role + '<|end_of_role|>' }}
{%- if m.role == 'assistant' and m.tool_calls %}{{- m.content }}{{- '<|tool_call|>' + m.tool_calls | tojson }}
{%- else %}{{- m.content }}{%- endif %}{{- '<|end_of_text|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}"""

QWEN2_VL = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}
{%- if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}
{%- if part.type == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{% elif 'text' in part %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

LLAVA = """{% for m in messages %}{{ m.role | upper + ': ' }}
{%- for part in m.content | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}
{%- for part in m.content | selectattr('type', 'equalto', 'text') %}{{ part.text + ' ' }}{% endfor %}{% endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"""

FAMILIES = {
    "chatml": CHATML,
    "qwen2.5": QWEN25,
    "qwen3.5": QWEN35,
    "llama2": LLAMA2,
    "llama3.1": LLAMA31,
    "mistral": MISTRAL,
    "gemma2": GEMMA2,
    "gpt-oss": GPT_OSS,
    "deepseek": DEEPSEEK,
    "phi4": PHI4,
    "smollm3": SMOLLM3,
    "glm4.5": GLM45,
    "granite": GRANITE,
    "qwen2-vl": QWEN2_VL,
    "llava": LLAVA,
}
