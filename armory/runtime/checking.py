"""Finds all problems of a configuration at once: in the file, and in the parts built from it.

Owns: joining the two, and which parts are asked. Opens nothing, connects to nothing, loads no
model; what a part needs is imported only where the configuration asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path as File

import yaml

from armory.config import ConfigProblems, Loaded, Problem, load_file
from armory.config.checks.cross import cross_check
from armory.config.embedding import lacks_openai_key, provider
from armory.config.problems import Path, dotted
from armory.errors import ConfigError
from armory.retrieval.options import CALIBRATION, EMBEDDED, NO_EMBEDDER, PartOptions
from armory.runtime.blocks.authentication import authenticator
from armory.runtime.blocks.extras import absent_extras
from armory.runtime.settings import otel_settings, problems_of
from armory.telemetry.export import check as check_telemetry

_WHO_MAY_CONNECT = (("security",), ("server", "host"))


def checked(path: File, text: str | None = None, node: yaml.Node | None = None) -> Loaded:
    """Load a configuration from which a gateway can be built.

    Args:
        path: its file.
        text: what that would hold; None: what it holds.
        node: as of `armory.config.source.Source`.

    Raises:
        ConfigError: the file cannot be read.
        ConfigProblems: it is invalid; the error names every problem.
    """
    problems: list[Problem] = []
    wrong: Collection[Path] = ()
    try:
        loaded = load_file(path, text=text, node=node)
    except ConfigProblems as error:
        if error.rest is None:
            raise
        loaded, wrong, problems = error.rest, error.wrong, list(error.problems)
    for error in (*problems_of(loaded), *absent_extras(loaded)):
        inner = _inner(error)
        if not _follows(inner, wrong):
            where, line = loaded.place(inner)
            problems.append(Problem(where, _bare(error), line))
    for error in _parts(loaded, wrong):
        where, line = loaded.place(_inner(error))
        if all(where != known.path for known in problems):  # one cause is enough for one place
            problems.append(Problem(where, _bare(error), line))
    if problems:
        raise ConfigProblems(problems, str(path))
    return loaded


def check_address(loaded: Loaded) -> None:
    """Check that a valid configuration is still valid with another address to listen on.

    Args:
        loaded: with that address in it.

    Raises:
        ConfigError: the address makes it invalid.
    """
    authenticator(loaded.config)
    for path, message in cross_check({}, loaded.config):
        raise ConfigError(message, path=dotted(path))


def _parts(loaded: Loaded, wrong: Collection[Path]) -> Iterator[ConfigError]:
    """Collect the errors of all parts of a gateway."""
    for check, needs in _PARTS:
        if any(_overlap(need, bad) for need in needs for bad in wrong):
            continue
        try:
            check(loaded)
        except ConfigError as error:
            yield error


def _ranking(loaded: Loaded) -> None:
    """Weights, a calibration file."""
    rag = loaded.config.tool_rag
    if rag.multi_factor.weights or (loaded.home / CALIBRATION).exists():
        from armory.runtime.retrieval import retriever_settings

        retriever_settings(rag, loaded.home)


def _embedder(loaded: Loaded) -> None:
    """A model that nobody knows; providers that a program has added judge by themselves."""
    rag, computed_by = loaded.config.tool_rag, provider(loaded.config)
    if not rag.enabled or lacks_openai_key(loaded.config) or rag.embedding_model == NO_EMBEDDER:
        return
    if computed_by == "fastembed":
        from armory.retrieval.embedders.fastembed import FastembedEmbedder

        FastembedEmbedder(rag.embedding_model)
    elif computed_by == "openai":
        from armory.retrieval.embedders.openai_models import dimension_of

        dimension_of(rag.embedding_model, rag.openai.dimensions)
    elif computed_by == EMBEDDED and rag.embedding_model != EMBEDDED:
        from armory.retrieval.embedders.embedded import open_embedder

        open_embedder(rag.embedding_model, PartOptions())


def _reranker(loaded: Loaded) -> None:
    rag = loaded.config.tool_rag
    if rag.enabled and rag.rerank is not None:
        from armory.retrieval.ranking.cross_encoder import library_for

        library_for(rag.rerank)


def _documents(loaded: Loaded) -> None:
    agent = loaded.config.agent
    if agent.enabled and agent.documents and loaded.config.tool_rag.enabled:
        from armory.agent.documents import check_folder

        check_folder(loaded.folder / agent.documents)


def _session_tokens(loaded: Loaded) -> None:
    if loaded.config.security.jwt is not None:
        from armory.runtime.blocks.accounts import jwt_scheme

        jwt_scheme(loaded.config)


def _encryption(loaded: Loaded) -> None:
    if loaded.config.security.encryption_key:
        from armory.runtime.blocks.encryption import seals

        seals(loaded)


def _database(loaded: Loaded) -> None:
    if not loaded.config.storage.url.startswith("sqlite"):
        from armory.storage.engine import driver_url

        driver_url(loaded.config.storage.url)


def _redis(loaded: Loaded) -> None:
    if loaded.config.storage.redis is not None:
        from armory.storage.redis_cache import RedisCache

        RedisCache(loaded.config.storage.redis)


def _telemetry(loaded: Loaded) -> None:
    check_telemetry(otel_settings(loaded.config))


_PARTS: tuple[tuple[Callable[[Loaded], None], tuple[Path, ...]], ...] = (
    (_ranking, (("tool_rag", "multi_factor"),)),
    (
        _embedder,
        tuple(
            ("tool_rag", key)
            for key in ("enabled", "embedding_model", "embedding_provider", "openai")
        ),
    ),
    (_reranker, (("tool_rag", "enabled"), ("tool_rag", "rerank"))),
    (_documents, (("agent",), ("tool_rag", "enabled"))),
    (_session_tokens, (("security", "jwt"),)),
    (_encryption, (("security", "encryption_key"),)),
    (_database, (("storage", "url"),)),
    (_redis, (("storage", "redis"),)),
    (_telemetry, (("observability", "otel"),)),
)
"""Each check with the values that it goes by: where one of them is wrong, it is not made."""


def _overlap(one: Path, other: Path) -> bool:
    """Whether two paths are the same, or one contains the other."""
    return one[: len(other)] == other or other[: len(one)] == one


def _follows(inner: Path, wrong: Collection[Path]) -> bool:
    """Whether a problem may only be a consequence of removing a wrong value."""
    if inner[:1] == ("security",):
        return any(bad[: len(part)] == part for bad in wrong for part in _WHO_MAY_CONNECT)
    return any(_overlap(inner, bad) for bad in wrong)


def _inner(error: ConfigError) -> Path:
    return tuple(error.path.split(".")) if error.path else ()


def _bare(error: ConfigError) -> str:
    return error.message.removeprefix(f"{error.path}: ")
