"""Where things are: the folder of Armory's data, and the configuration file.

Owns: `armory_home`, `home_here`, `find_config`, `default_config`. Never imports a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as File

from armory.config.dotenv import NAME as DOTENV
from armory.config.dotenv import read_variables
from armory.errors import ConfigError

FILE_NAME = "armory.yaml"


def armory_home(environ: Mapping[str, str] | None = None) -> File:
    """`$ARMORY_HOME`, else the platform's folder for user data.

    Raises:
        ConfigError: the user has no home folder, as where a container runs as any number.
    """
    chosen = (os.environ if environ is None else environ).get("ARMORY_HOME")
    if chosen:
        return File(chosen)
    import platformdirs  # only where nobody says the folder

    try:
        found = File(platformdirs.user_data_dir("armory", appauthor=False))
    except RuntimeError:  # newer versions say so, older ones leave the "~" as it is
        found = File("~")
    if not found.is_absolute():
        raise ConfigError(
            "this user has no home folder to keep Armory's data in; name a folder that it may "
            "write with $ARMORY_HOME"
        )
    return found


def home_here(config: str | None = None) -> File:
    """As `armory_home`, for a gateway started here: a `.env` beside its configuration counts.

    Args:
        config: the file; None: `$ARMORY_CONFIG`, or the one in this folder.

    Raises:
        ConfigError: as by `armory_home`, or the `.env` is no UTF-8 text.
    """
    file = File(config) if config else default_config()
    variables = read_variables(file.parent / DOTENV) if file.is_file() else {}
    return armory_home({**variables, **os.environ})


def default_config() -> File:
    """The file that is meant where none is named, whether it is there or not: `$ARMORY_CONFIG`,
    else `./armory.yaml`.
    """
    return File(os.environ.get("ARMORY_CONFIG") or FILE_NAME)


def find_config(given: str | None, environ: Mapping[str, str] | None = None) -> File:
    """The file to read: `given`, else `$ARMORY_CONFIG`, else `./armory.yaml`.

    Raises:
        ConfigError: there is no such file.
    """
    environ = os.environ if environ is None else environ
    for origin, name in (("--config", given), ("$ARMORY_CONFIG", environ.get("ARMORY_CONFIG"))):
        if name:
            if not File(name).is_file():
                raise ConfigError(f"{origin} names {name!r}, {_what_is_there(File(name))}")
            return File(name)
    if not File(FILE_NAME).is_file():
        raise ConfigError(
            f"no {FILE_NAME} in {File.cwd()}; write one with `armory init`, "
            "or name one with --config or $ARMORY_CONFIG"
        )
    return File(FILE_NAME)


def _what_is_there(path: File) -> str:
    if path.is_dir():
        return f"which is a folder; name the file, such as {str(path / FILE_NAME)!r}"
    if path.exists():
        return "which is a pipe or a device; it is read more than once, so write it to a file"
    return "where no file is"
