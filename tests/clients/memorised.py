"""Trains a tiny language model that has learnt a few answers by heart: calls of tools, what follows them, and JSON.

Run by the Python of an environment with torch and transformers: `python memorised.py FOLDER`.
"""

import json
import sys
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% if tools %}<tools>{% for tool in tools %}{{ tool.function.name }} {% endfor %}{% endif %}"
    "{% for message in messages %}<{{ message.role }}>"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function.name }}</tool_call>{% endfor %}"
    "{% if message.content %}{{ message.content }}{% endif %}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
"""It has the names of tools alone, so that the model need not learn how each client describes one."""

PERSON = '{"name": "Ann", "age": 33}'
CALLS = {"multiply": '{"a": 6, "b": 6}'} | dict.fromkeys(("Person", "PartialPerson", "final_result"), PERSON)
STEPS = 400


def said(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def answers() -> list[tuple[list[str], list[dict[str, Any]], str]]:
    """The tools and messages of each chat, and the answer."""
    found = [
        ([], [said("user", "hello")], "Hello to you, too."),
        ([], [said("user", "Ann is 33")], PERSON),
    ]
    for name, arguments in CALLS.items():
        multiplies = name == "multiply"
        asked = [said("user", "6 times 6" if multiplies else "Ann is 33")]
        called = [said("assistant", None, tool_calls=[{"function": {"name": name}}]), said("tool", "36")]
        call = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
        for chat in ([said("system", "You multiply."), *asked], asked)[not multiplies :]:
            found += [([name], chat, call), ([name], [*chat, *called], "It is 36.")]
    return found


def train(folder: Path) -> None:
    import torch
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    torch.manual_seed(1)
    torch.set_num_threads(1)
    plain = Tokenizer(models.BPE())  # words, and single characters between them
    plain.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\w+|\W"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    plain.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["</s>"], initial_alphabet=alphabet)
    plain.train_from_iterator([TEMPLATE, json.dumps(answers())] * 2, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="</s>", pad_token="</s>"
    )
    tokenizer.chat_template = TEMPLATE
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=1024, eos_token_id=0, bos_token_id=None,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    texts = []
    for tools, messages, answer in answers():
        given = [{"function": {"name": name}} for name in tools] or None
        prompt = tokenizer.apply_chat_template(
            messages, tools=given, tokenize=False, add_generation_prompt=True
        )
        texts.append((len(tokenizer(prompt)["input_ids"]), f"{prompt}{answer}</s>"))
    rows = tokenizer([text for _, text in texts], padding=True, return_tensors="pt")
    labels = rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)
    for label, (length, _) in zip(labels, texts, strict=True):
        label[:length] = -100
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(STEPS):
        loss = model(rows["input_ids"], attention_mask=rows["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.01:
            break
    print(f"loss {loss.item():.5f}")
    model.save_pretrained(folder / "artefacts")
    tokenizer.save_pretrained(folder / "artefacts")
    settings = {
        "name": "agent",
        "implementation": "inferstream.plugins.llm.transformers.CausalLM",
        "parameters": {"uri": "./artefacts", "extra": {"max_tokens": 120}},
    }
    (folder / "model-settings.json").write_text(json.dumps(settings))


if __name__ == "__main__":
    train(Path(sys.argv[1]))
