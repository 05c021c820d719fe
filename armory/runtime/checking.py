"""Every problem of a configuration at once: its own, and those that building from it would meet.

Owns: joining the two. Opens nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path as File

from armory.config import ConfigProblems, Loaded, Problem, load_file
from armory.config.problems import Path
from armory.errors import ConfigError
from armory.retrieval.options import CALIBRATION
from armory.runtime.blocks.extras import absent_extras
from armory.runtime.settings import problems_of

_WHO_MAY_CONNECT = (("security",), ("server", "host"))


def checked(path: File, text: str | None = None) -> Loaded:
    """A configuration that a gateway can be built from.

    Args:
        path: its file.
        text: what that would hold; None: what it holds.

    Raises:
        ConfigError: the file cannot be read.
        ConfigProblems: names every problem.
    """
    problems: list[Problem] = []
    wrong: Collection[Path] = ()
    try:
        loaded = load_file(path, text=text)
    except ConfigProblems as error:
        if error.rest is None:
            raise
        loaded, wrong, problems = error.rest, error.wrong, list(error.problems)
    for error in (*problems_of(loaded), *_retrieval(loaded), *absent_extras(loaded)):
        inner: Path = tuple(error.path.split(".")) if error.path else ()
        if not _follows(inner, wrong):
            where, line = loaded.place(inner)
            problems.append(Problem(where, _bare(error), line))
    if problems:
        raise ConfigProblems(problems, str(path))
    return loaded


def _retrieval(loaded: Loaded) -> list[ConfigError]:
    """What of the ranking cannot be used: weights, a calibration file."""
    rag = loaded.config.tool_rag
    if not rag.multi_factor.weights and not (loaded.home / CALIBRATION).exists():
        return []
    from armory.runtime.retrieval import retriever_settings  # heavy: only where it can say no

    try:
        retriever_settings(rag, loaded.home)
    except ConfigError as error:
        return [error]
    return []


def _follows(inner: Path, wrong: Collection[Path]) -> bool:
    """Whether a problem may only be there because a wrong value was taken out."""
    if inner[:1] == ("security",):
        return any(bad[: len(part)] == part for bad in wrong for part in _WHO_MAY_CONNECT)
    return any(bad[: len(inner)] == inner or inner[: len(bad)] == bad for bad in wrong)


def _bare(error: ConfigError) -> str:
    return error.message.removeprefix(f"{error.path}: ")
