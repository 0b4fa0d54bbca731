"""What the screenshots serve beside the examples: an assistant that calls a tool, and a trained pipeline."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

from inferstream import App, Token

app = App()

ANSWER = "It is **4 °C** in Oslo, with light rain until the evening. Take a jacket."
CALL = {"index": 0, "id": "call_0", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}


@app.model(reasoning_format="think", tool_format="none")
async def assistant(messages: str, tools: str = "[]") -> AsyncIterator[str | Token]:
    """An assistant that looks things up."""
    last = json.loads(messages)[-1]
    if last["role"] != "tool" and tools != "[]":
        yield "<think>The question is about today, so I need the weather.</think>"
        yield Token(tool_calls=[CALL])
        return
    async for word in _write(ANSWER, 0.03):
        yield word


@app.model
async def terse(prompt: str) -> AsyncIterator[str]:
    """The same in fewer words."""
    async for word in _write("4 °C and rain. Take a jacket.", 0.012):
        yield word


@app.model
async def slow(prompt: str) -> str:
    """Take half a second."""
    await asyncio.sleep(0.5)
    return prompt


@app.model
def strict(prompt: str) -> str:
    """Reject every other prompt."""
    if len(prompt) % 2:
        raise ValueError("the prompt has an odd number of letters")
    return prompt.upper()


async def _write(text: str, pause: float) -> AsyncIterator[str]:
    for word in text.split(" "):
        await asyncio.sleep(pause)
        yield f"{word} "


def train(folder: Path) -> None:
    """Train a pipeline of columns, and save it as a model folder."""
    import joblib
    import numpy as np
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    random = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 80, 400),
            "balance": random.normal(1200, 500, 400),
            "city": random.choice(["Oslo", "Paris", "Rome"], 400),
            "active": random.choice([True, False], 400),
        }
    )
    leaves = np.where((frame["age"] > 55) ^ ~frame["active"], "leave", "stay")
    numbers, names = (StandardScaler(), ["age", "balance"]), (OneHotEncoder(), ["city", "active"])
    (folder / "churn").mkdir(parents=True)
    pipeline = make_pipeline(make_column_transformer(numbers, names), LogisticRegression())
    joblib.dump(pipeline.fit(frame, leaves), folder / "churn" / "model.joblib")
    settings = {"name": "churn", "implementation": "sklearn"}
    (folder / "churn" / "model-settings.json").write_text(json.dumps(settings))
