"""Looks up what PromQL expressions select in a scrape: names, labels and buckets, without evaluating functions."""

import re
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SELECTOR = re.compile(
    r"(?<![\w:.])(?P<name>[a-zA-Z_:][\w:]*)(?![\w:])\s*(?:\{(?P<matchers>[^}]*)\})?(?P<range>\[[^\]]*\])?(?!\s*\()"
)
MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
LABELS = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
FROM_PROMETHEUS = {"up"}
"""Series that Prometheus itself makes."""


class Series(NamedTuple):
    name: str
    labels: dict[str, str]


class Scrape:
    """The series of one scrape, with the labels that Prometheus adds."""

    def __init__(self, page: str, **added: str) -> None:
        self.series = [
            Series(sample.name, {**sample.labels, **added})
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        ]
        self.series += [Series(name, added) for name in FROM_PROMETHEUS]

    def complaint(self, expression: str) -> str | None:
        """What is wrong with an expression at this scrape; None if each selector has series with each label used."""
        by = {label.strip() for found in LABELS.findall(expression) for label in found.split(",")} - {""}
        rest = LABELS.sub(" ", expression)
        selectors = [found for found in SELECTOR.finditer(_hidden(rest)) if not _word(found["name"])]
        if not selectors:
            return "it selects nothing"
        for found in selectors:
            start, end = found.span("matchers")
            matchers = _matchers(rest[start:end]) if start >= 0 else []
            if isinstance(matchers, str):
                return matchers
            chosen = [each for each in self.series if each.name == found["name"] and _match(each, matchers)]
            if not chosen:
                return f"no series {found['name']} with {matchers}"
            used = by - {"le"} | ({"le"} if found["name"].endswith("_bucket") else set())
            if found["name"] not in FROM_PROMETHEUS and not any(
                used <= each.labels.keys() for each in chosen
            ):
                return f"{found['name']} has not all the labels {sorted(used)}"
            if found["name"].endswith("_bucket") and len({each.labels["le"] for each in chosen}) < 3:
                return f"{found['name']} has no buckets"
            if found["name"].endswith(("_total", "_bucket", "_sum", "_count")) and not found["range"]:
                return f"{found['name']} is a counter and needs a rate"
        return None


def _hidden(text: str) -> str:
    """The text with its strings blanked, of the same length."""
    return STRING.sub(lambda found: '"' + "_" * (len(found[0]) - 2) + '"', text)


def _word(name: str) -> bool:
    return name in WORDS or re.fullmatch(r"[a-z]?\d*|e\d+", name) is not None


def _matchers(text: str) -> list[tuple[str, str, str]] | str:
    found, at = [], 0
    while at < len(text.rstrip()):
        one = MATCHER.match(text, at)
        if one is None:
            return f"{text[at:]!r} is no matcher"
        found.append((one[1], one[2], one[3]))
        at = one.end()
    return found


def _match(series: Series, matchers: list[tuple[str, str, str]]) -> bool:
    for label, operator, wanted in matchers:
        value = series.labels.get(label, "")
        same = value == wanted if "~" not in operator else re.fullmatch(wanted, value) is not None
        if same == operator.startswith("!"):
            return False
    return True
