"""Counts the steps of a regular expression: a matcher that tries what the engine of the standard
library tries, in its order.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

parser: Any = importlib.import_module("re._parser")
Then = Callable[[int], int | None]
Matcher = Callable[[int, Then], int | None]


class Steps:
    """A backtracking matcher of one expression that counts what it does."""

    def __init__(self, pattern: re.Pattern[Any], anchored: bool) -> None:
        source: Any = pattern.pattern
        text = source.decode("latin-1") if isinstance(source, bytes) else source
        self.tree = parser.parse(source, pattern.flags & ~re.DEBUG)
        self.anchored = anchored
        self.real = re.compile(text, pattern.flags & ~re.UNICODE | re.ASCII) if isinstance(
            source, bytes
        ) else pattern  # fmt: skip
        self.flags = self.real.flags
        self.count = 0
        self.text = ""
        self.groups: dict[int, tuple[int, int]] = {}
        self._matcher = self._sequence(list(self.tree), self.flags)

    def over(self, text: str) -> int:
        """Steps of all searches from the beginning to the end of a text."""
        self.text, self.count = text, 0
        spans: list[tuple[int, int]] = []
        at = 0
        while at <= len(text):
            self.groups.clear()
            self.count += 1
            end = self._matcher(at, lambda found: found)
            if end is not None:
                spans.append((at, end))
            if self.anchored:
                break
            at = at + 1 if end is None or end == at else end
        real = (
            [m.span()] if self.anchored and (m := self.real.match(text)) else []
            if self.anchored
            else [m.span() for m in self.real.finditer(text)]
        )  # fmt: skip
        if all(end > begin for begin, end in (*spans, *real)):
            assert spans == real, (self.real.pattern, text)
        return self.count

    def attacks(self) -> Iterator[tuple[str, str]]:
        """(beginning, what is repeated) pairs."""
        nodes = list(self.tree)
        found = list(dict.fromkeys(places(nodes, self.flags)))
        words = list(dict.fromkeys(text for pair in found for text in pair if len(text) < 24))
        chars = list(dict.fromkeys([*members(nodes, self.flags), *"".join(words)]))[:12]
        begins = list(dict.fromkeys(["", *words]))[:24]
        yield from ((begin, char) for char in chars for begin in begins)
        yield from ((begin, word) for word in words[:12] if word for begin in begins[:6])
        yield from (("", word) for word in words[12:40])
        yield from (("", one + two) for one in chars for two in chars if one != two)

    def _sequence(self, nodes: list[Any], flags: int) -> Matcher:
        parts = [self._node(op, value, flags) for op, value in nodes]

        def run(at: int, then: Then, index: int = 0) -> int | None:
            if index == len(parts):
                return then(at)
            return parts[index](at, lambda found: run(found, then, index + 1))

        return parts[0] if len(parts) == 1 else run

    def _node(self, op: Any, value: Any, flags: int) -> Matcher:
        name = str(op)
        single = self._single(name, value, flags)
        if single is not None:

            def one(at: int, then: Then) -> int | None:
                self.count += 1
                return then(at + 1) if at < len(self.text) and single(self.text[at]) else None

            return one
        made = getattr(self, f"_{name.lower()}", None)
        assert made is not None, f"the matcher of this test does not know {name}"
        return made(value, flags)

    def _single(self, name: str, value: Any, flags: int) -> Callable[[str], bool] | None:
        if name not in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return None
        known: dict[str, bool] = {}

        def fits(char: str) -> bool:
            found = known.get(char)
            if found is None:
                both = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
                found = known[char] = _fits(name, value, flags, both)
            return found

        return fits

    def _subpattern(self, value: Any, flags: int) -> Matcher:
        group, added, removed, inner = value
        body = self._sequence(list(inner), (flags | added) & ~removed)
        if group is None:
            return body

        def run(at: int, then: Then) -> int | None:
            def closed(end: int) -> int | None:
                before = self.groups.get(group)
                self.groups[group] = (at, end)
                found = then(end)
                if found is None and before is not None:
                    self.groups[group] = before
                return found

            return body(at, closed)

        return run

    def _branch(self, value: Any, flags: int) -> Matcher:
        choices: list[tuple[Callable[[str], bool] | None, Matcher]] = []
        for nodes in value[1]:
            first = list(nodes)[:1]
            test = self._single(str(first[0][0]), first[0][1], flags) if first else None
            choices.append((test, self._sequence(list(nodes), flags)))

        def run(at: int, then: Then) -> int | None:
            self.count += 1
            char = self.text[at : at + 1]
            for test, choice in choices:  # the engine, too, looks at the first character only
                if test is None or (char and test(char)):
                    found = choice(at, then)
                    if found is not None:
                        return found
            return None

        return run

    def _max_repeat(self, value: Any, flags: int) -> Matcher:
        low, high, inner = value
        body = self._sequence(list(inner), flags)
        nodes = list(inner)
        single = self._single(str(nodes[0][0]), nodes[0][1], flags) if len(nodes) == 1 else None

        def chars(at: int, then: Then) -> int | None:
            assert single is not None
            end, last = at, len(self.text) if high is parser.MAXREPEAT else at + high
            while end < min(last, len(self.text)) and single(self.text[end]):
                end += 1
            self.count += end - at + 1
            while end >= at + low:
                found = then(end)
                if found is not None:
                    return found
                end -= 1
                self.count += 1
            return None

        def groups(at: int, then: Then, done: int = 0) -> int | None:
            self.count += 1
            if done < high:
                found = body(
                    at,
                    lambda end: groups(end, then, done + 1) if end > at or done < low else None,
                )
                if found is not None:
                    return found
            return then(at) if done >= low else None

        return chars if single is not None else groups

    def _min_repeat(self, value: Any, flags: int) -> Matcher:
        low, high, inner = value
        body = self._sequence(list(inner), flags)

        def run(at: int, then: Then, done: int = 0) -> int | None:
            while True:
                self.count += 1
                if done >= low:
                    found = then(at)
                    if found is not None:
                        return found
                end = body(at, lambda found: found) if done < high else None
                if end is None or end == at:
                    return None  # what the package repeats lazily is one character
                at, done = end, done + 1

        return run

    def _possessive_repeat(self, value: Any, flags: int) -> Matcher:
        low, high, inner = value
        body = self._sequence(list(inner), flags)

        def run(at: int, then: Then) -> int | None:
            done = 0
            while done < high:
                self.count += 1
                end = body(at, lambda found: found)
                if end is None or (end == at and done >= low):
                    break
                at, done = end, done + 1
            return then(at) if done >= low else None

        return run

    def _atomic_group(self, value: Any, flags: int) -> Matcher:
        body = self._sequence(list(value), flags)

        def run(at: int, then: Then) -> int | None:
            end = body(at, lambda found: found)
            return None if end is None else then(end)

        return run

    def _assert(self, value: Any, flags: int, wanted: bool = True) -> Matcher:
        direction, inner = value
        body = self._sequence(list(inner), flags)
        width = inner.getwidth()[0] if direction < 0 else 0

        def run(at: int, then: Then) -> int | None:
            begin = at - width
            met = begin >= 0 and body(begin, lambda found: found) is not None
            return then(at) if met is wanted else None

        return run

    def _assert_not(self, value: Any, flags: int) -> Matcher:
        return self._assert(value, flags, False)

    def _groupref(self, value: Any, flags: int) -> Matcher:
        def run(at: int, then: Then) -> int | None:
            begin, end = self.groups.get(value, (0, -1))
            self.count += max(end - begin, 1)
            said, here = self.text[begin:end], self.text[at : at + end - begin]
            same = said.lower() == here.lower() if flags & re.IGNORECASE else said == here
            return then(at + end - begin) if end >= begin and same else None

        return run

    def _at(self, value: Any, flags: int) -> Matcher:
        name = str(value)

        def run(at: int, then: Then) -> int | None:
            self.count += 1
            return then(at) if _stands(name, self.text, at, flags) else None

        return run


def _stands(name: str, text: str, at: int, flags: int) -> bool:
    before, after = text[at - 1 : at] if at else "", text[at : at + 1]
    if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return not at or (name == "AT_BEGINNING" and bool(flags & re.M) and before == "\n")
    if name in ("AT_END", "AT_END_STRING"):
        last = at == len(text) - 1 or bool(flags & re.M)
        return at == len(text) or (name == "AT_END" and last and after == "\n")
    edge = bool(re.match(r"\w", before)) != bool(re.match(r"\w", after))
    return edge if name == "AT_BOUNDARY" else not edge


CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


def _fits(name: str, value: Any, flags: int, chars: set[str]) -> bool:
    if name == "ANY":
        return bool(flags & re.DOTALL) or "\n" not in chars
    if name == "LITERAL":
        return chr(value) in chars
    if name == "NOT_LITERAL":
        return chr(value) not in chars
    negated = str(value[0][0]) == "NEGATE"
    return negated != any(
        _in_item(str(op), item, char, flags) for op, item in value[negated:] for char in chars
    )


def _in_item(op: str, item: Any, char: str, flags: int) -> bool:
    if op == "LITERAL":
        return item == ord(char)
    if op == "RANGE":
        return item[0] <= ord(char) <= item[1]
    kind = str(item).removeprefix("CATEGORY_")
    met = re.match(CATEGORIES[kind.removeprefix("NOT_")], char, flags & re.ASCII) is not None
    return met != kind.startswith("NOT_")


def example(nodes: list[Any], flags: int) -> str:
    """A short text that these nodes match, as far as looking around allows."""
    return "".join(_example(str(op), value, flags) for op, value in nodes)


PROBES = "a \n\"'\\0.,=<`[{-_:/?>ZT~*é漢\x00"


def _example(name: str, value: Any, flags: int) -> str:
    if name == "LITERAL":
        return chr(value)
    if name in ("NOT_LITERAL", "ANY", "IN"):
        tried = [*PROBES, *map(chr, range(128)), "\ud800"]
        return next((c for c in tried if _fits(name, value, flags, {c})), "")
    if name == "SUBPATTERN":
        return example(list(value[3]), flags)
    if name == "BRANCH":
        return example(list(value[1][0]), flags)
    if name.endswith("REPEAT"):
        return example(list(value[2]), flags) * max(value[0], 1)
    return example(list(value), flags) if name == "ATOMIC_GROUP" else ""


def places(nodes: list[Any], flags: int, before: str = "") -> Iterator[tuple[str, str]]:
    """(what leads there, what stands there) for every part of an expression, outermost first."""
    for op, value in nodes:
        name = str(op)
        yield before, _example(name, value, flags)
        inner: list[Any] = []
        if name == "SUBPATTERN":
            inner = [value[3]]
        elif name == "BRANCH":
            inner = value[1][:: max(1, len(value[1]) // 8)]
        elif name.endswith("REPEAT"):
            inner = [value[2]]
        elif name in ("ASSERT", "ASSERT_NOT"):
            inner = [value[1]]
        elif name == "ATOMIC_GROUP":
            inner = [value]
        for part in inner:
            yield from places(list(part), flags, before)
        before += _example(name, value, flags)


def members(nodes: list[Any], flags: int) -> Iterator[str]:
    """Characters of each kind that a set of an expression holds."""
    for op, value in nodes:
        if str(op) == "IN":
            yield from (char for char in "a. 0-_\n" if _fits("IN", value, flags, {char}))
        elif str(op).endswith("REPEAT"):
            yield from members(list(value[2]), flags)
        elif str(op) == "SUBPATTERN":
            yield from members(list(value[3]), flags)
        elif str(op) == "BRANCH":
            for part in value[1]:
                yield from members(list(part), flags)
