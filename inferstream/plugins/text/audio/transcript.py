"""Transcripts: text, timed segments, and subtitles."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import orjson

from inferstream.errors import InvalidOutput
from inferstream.types import InferenceResponse


class Segment(NamedTuple):
    """A part of a transcript, with its times in seconds."""

    start: float
    end: float
    text: str
    more: dict[str, Any]


class Transcript:
    """The transcript so far. A model returns strings, segments, or objects with `text` or `segments`."""

    __slots__ = ("_json", "_model", "_pieces", "facts", "segments")

    def __init__(self, model: str, json: bool) -> None:
        self._model = model
        self._json = json
        self._pieces: list[str] = []
        self.segments: list[Segment] = []
        self.facts: dict[str, Any] = {}
        """Other properties from the model: language, duration, words."""

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, response: InferenceResponse) -> str:
        """Add a response and return its text. Events without a value, such as progress, have no text."""
        before = len(self._pieces)
        for output in response.outputs[:1]:
            for value in output.data.flat():
                if self._json:
                    self._take(orjson.loads(value) if isinstance(value, (str, bytes)) else value)
                else:
                    self._pieces.append(value.decode() if isinstance(value, bytes) else str(value))
        return "".join(self._pieces[before:])

    def _take(self, item: Any) -> None:
        """Add a JSON item. Raises InvalidOutput."""
        if isinstance(item, str):
            self._pieces.append(item)
            return
        if isinstance(item, list):
            for each in item:
                self._take_segment(each)
            return
        if not isinstance(item, dict) or not ("text" in item or isinstance(item.get("segments"), list)):
            raise self._wrong()
        if "start" in item:
            self._take_segment(item)
            return
        self.facts |= {name: item[name] for name in ("language", "duration", "words") if name in item}
        spoken = len(self._pieces)
        for each in item.get("segments") or ():
            self._take_segment(each)
        if "text" in item:  # takes precedence over the text of the segments
            self._pieces[spoken:] = [str(item["text"])]

    def _take_segment(self, item: Any) -> None:
        try:
            segment = Segment(float(item["start"]), float(item["end"]), str(item["text"]), item)
        except (KeyError, TypeError, ValueError):
            raise self._wrong() from None
        if not (isfinite(segment.start) and isfinite(segment.end)):
            raise self._wrong()
        self.segments.append(segment)
        self._pieces.append(segment.text)

    def _wrong(self) -> InvalidOutput:
        return InvalidOutput(
            f"Model {self._model} answered no transcript: a text, or an object with text or segments, "
            "each of which has start, end and text."
        )


def write_subtitles(segments: Sequence[Segment], web: bool) -> str:
    """Return the segments as WebVTT if `web`, else as SubRip.

    The text of each segment is on one line, because blank lines separate cues.
    """
    cues = []
    for index, segment in enumerate(segments):
        times = f"{_time(segment.start, web)} --> {_time(segment.end, web)}"
        text = " ".join(segment.text.split()).replace("-->", "->")
        cues.append(f"{times}\n{text}\n" if web else f"{index + 1}\n{times}\n{text}\n")
    return ("WEBVTT\n\n" if web else "") + "\n".join(cues)


def _time(seconds: float, web: bool) -> str:
    whole = max(round(seconds * 1000), 0)
    minutes, milliseconds = divmod(whole, 60_000)
    text = f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds / 1000:06.3f}"
    return text if web else text.replace(".", ",")
