"""Masks the secrets in the text of a configuration file; everything else stays verbatim.

Owns: hiding them, and putting back what is hidden into a text that was edited. Opens nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import yaml

from armory.config import ConfigProblems, Problem
from armory.config.source import composed
from armory.errors import ConfigError
from armory.runtime.editing.secret_places import secret_places


@dataclass(frozen=True)
class Masked:
    """A text whose secrets can be masked.

    Attributes:
        original: as it is in the file.
        parameters: whether the values of all parameters of web addresses are hidden.
    """

    original: str
    parameters: bool = False

    @cached_property
    def node(self) -> yaml.Node | None:
        """What the text is parsed to.

        Raises:
            yaml.YAMLError, RecursionError: it is no YAML.
        """
        return composed(self.original)

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        try:
            return secret_places(self.original, self.node, parameters=self.parameters)
        except (yaml.YAMLError, RecursionError):
            raise ConfigError(
                "the file is no YAML, so what is secret in it is not known; mend it where it is"
            ) from None

    @cached_property
    def _word(self) -> str:
        word, number = "hidden", 0
        while f"<{word}-" in self.original:
            number += 1
            word = f"hidden{number}"
        return word

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """The masked values, in order."""
        return tuple(self.original[start:end] for start, end in self._spans)

    @cached_property
    def shown(self) -> str:
        """The text with `<hidden-N>` in the place of each secret.

        Raises:
            ConfigError: it is no YAML.
        """
        parts: list[str] = []
        at = 0
        for number, (start, end) in enumerate(self._spans, 1):
            parts += [self.original[at:start], f"<{self._word}-{number}>"]
            at = end
        return "".join([*parts, self.original[at:]])

    @cached_property
    def unedited(self) -> Restored:
        """The text as it is, with its lines as `shown` has them; `restored` would parse it again.

        Raises:
            ConfigError: it is no YAML.
        """
        lines, line, at = [1], 1, 0
        whole = len(self.original)
        for start, end in [*self._spans, (whole, whole)]:
            for _ in range(self.original.count("\n", at, start)):
                line += 1
                lines.append(line)
            lines += [line] * self.original.count("\n", start, end)
            at = end
        return Restored(self.original, tuple(lines), self.hidden)

    def restored(self, edited: str) -> Restored:
        """Put the secrets back into an edited text, in place of each `<hidden-N>`.

        Newlines become those of the file if all of its newlines are of one kind.

        Raises:
            ConfigProblems: something that looks like a hidden value stands for none, or one stands
                where it would be shown from then on.
        """
        windows = "\r\n" in self.original and "\n" not in self.original.replace("\r\n", "")
        mark = re.compile(rf"<{self._word}-(?P<number>\d{{1,6}})>|<{self._word}-")
        parts: list[str] = []
        places: list[tuple[int, int, str, int]] = []
        lines, line, at, size = [1], 1, 0, 0
        for match in [*mark.finditer(edited), None]:
            plain = edited[at : match.start() if match else len(edited)].replace("\r\n", "\n")
            for _ in range(plain.count("\n")):
                line += 1
                lines.append(line)
            parts.append(plain.replace("\n", "\r\n") if windows else plain)
            size += len(parts[-1])
            if match is None:
                break
            number = int(match["number"] or 0)
            if not 1 <= number <= len(self.hidden):
                message = f"{match[0]!r} stands for nothing that was hidden here; write the value"
                raise ConfigProblems([Problem("", message, line)])
            value = self.hidden[number - 1]
            parts.append(value)
            places.append((size, size + len(value), match[0], line))
            size += len(value)
            lines += [line] * value.count("\n")
            at = match.end()
        text = "".join(parts)
        _stay_hidden(text, places, self.parameters)
        return Restored(text, tuple(lines), self.hidden)


def _stay_hidden(text: str, places: Sequence[tuple[int, int, str, int]], parameters: bool) -> None:
    """Refuse masked values in places where they would be shown: moving one must not reveal it.

    Args:
        text: with them.
        places: (start, end, what stands for it, line of that) of each.
        parameters: as of `Masked`.

    Raises:
        ConfigProblems: there are such values; the error names each.
    """
    try:
        secret = secret_places(text, composed(text), parameters=parameters)
    except (yaml.YAMLError, RecursionError):
        return  # what is no YAML is refused as that, and nothing of it is quoted
    message = "stands where no secret is expected, and would be shown there; write the value"
    starts = [first for first, _ in secret]

    def is_secret(start: int, end: int) -> bool:
        last = bisect_right(starts, start) - 1
        return last >= 0 and end <= secret[last][1]

    shown = [
        Problem("", f"{mark!r} {message}", line)
        for start, end, mark, line in places
        if not is_secret(start, end)
    ]
    if shown:
        raise ConfigProblems(shown)


@dataclass(frozen=True, slots=True)
class Restored:
    """An edited text with its secrets, ready to be written.

    Attributes:
        text: with its secrets.
        lines: for each of its lines the number of the line in the edited text.
        hidden: its secrets, as they stand there.
    """

    text: str
    lines: tuple[int, ...]
    hidden: tuple[str, ...]

    def shown_line(self, line: int | None) -> int | None:
        """The line of the edited text that corresponds to a line of this one, both from 1."""
        return self.lines[line - 1] if line and line <= len(self.lines) else line
