"""A content editor: proposes changes of a text, each as soon as it is found, and applies those that are wanted.

`edit` streams: an editor marks the first sentence while the last one is still being read. Between the changes there
are events that say how far it is.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from inferstream import App, Event

PLAIN = {
    "at this point in time": "now",
    "due to the fact that": "because",
    "in order to": "to",
    "make use of": "use",
    "prior to": "before",
    "utilize": "use",
}
WORDY = re.compile("|".join(rf"\b{words}\b" for words in PLAIN), re.IGNORECASE)
TWICE = re.compile(r"\b(\w+)\s+\1\b", re.IGNORECASE)
SENTENCE = re.compile(r"[^.!?]+[.!?]*\s*")
MOST_WORDS = 30

app = App()


@dataclass
class Change:
    """What stands at a place of the text, and what should stand there."""

    at: int
    old: str
    new: str
    why: str


@app.model
async def edit(text: str) -> AsyncIterator[Change | Event]:
    """The changes of a text, from its beginning to its end.

    Examples:
        >>> edit("We utilize it in order to to win.")
    """
    sentences = list(SENTENCE.finditer(text))
    for number, sentence in enumerate(sentences, 1):
        for change in sorted(changes_of(sentence[0]), key=lambda change: change.at):
            change.at += sentence.start()
            yield change
        words = len(sentence[0].split())
        if words > MOST_WORDS:
            yield Event("long", at=sentence.start(), words=words)
        yield Event("progress", done=number, of=len(sentences))


def changes_of(sentence: str) -> list[Change]:
    changes = []
    for match in WORDY.finditer(sentence):
        plain = PLAIN[match[0].lower()]
        new = plain.capitalize() if match[0][0].isupper() else plain
        changes.append(Change(match.start(), match[0], new, "shorter"))
    return changes + [
        Change(match.start(), match[0], match[1], "twice") for match in TWICE.finditer(sentence)
    ]


@app.model
def apply(text: str, changes: list[Change]) -> str:
    """The text with these changes, of which none may overlap another."""
    for change in sorted(changes, key=lambda change: change.at, reverse=True):
        end = change.at + len(change.old)
        if text[change.at : end] != change.old:
            raise ValueError(f"at {change.at} stands {text[change.at : end]!r}, not {change.old!r}")
        text = text[: change.at] + change.new + text[end:]
    return text


app.error(ValueError, status=422)
