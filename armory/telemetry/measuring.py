"""Where measured durations are recorded.

Owns: `Durations`, and the list of durations that are not counted yet. Never imports OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from armory.telemetry.conventions import Series

AT_ONCE = 256
"""Durations that are counted together."""


class Uncounted(list[float]):
    """Durations of one series that are not counted yet, in seconds.

    Whoever appends one has them counted when there are `AT_ONCE`.

    Args:
        name: of the histogram.
        series: which of its series.
        count: counts those of a list, which is empty then.
    """

    __slots__ = ("_count", "name", "series")

    def __init__(self, name: str, series: Series, count: Callable[[Uncounted], None]) -> None:
        super().__init__()
        self.name = name
        self.series = series
        self._count = count

    def fold(self) -> None:
        """Count the durations that have been collected, and empty the list."""
        self._count(self)


class Durations(Protocol):
    """A sink for durations.

    Attributes:
        usual: by what `record` was told, the series that it stands for. Less than a series is found
            in less time, and without a function that finds it.
    """

    @property
    def usual(self) -> dict[Hashable, Uncounted]:
        """The series for each key that `record` was given; always the same object."""
        ...

    def record(
        self, name: str, seconds: float, series: Series, usual: Hashable | None = None
    ) -> None:
        """Count one duration.

        Args:
            name: of the histogram.
            seconds: how long it took.
            series: which of its series.
            usual: stands for this histogram and series from now on.
        """
        ...
