"""The configuration file over REST: reading it with secrets hidden, checking, replacing it.

Owns: the routes. Never sees a hidden value.
"""

from __future__ import annotations

from functools import partial

from pydantic import BaseModel, Field

from armory.errors import AccessDenied, ConfigError
from armory.logger import Logger
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.live.config_file import ConfigurationFile, NotWritable, Refused, Stale
from armory.web.rest.live.operating import ReloadEffects
from armory.web.rest.problems import Problem
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape, Text

_log = Logger(__name__)
_MOST_CHARS = 2_000_000


class ConfigProblem(BaseModel):
    """Something that does not hold."""

    path: str = Field(description="YAML path; empty for the file as a whole.")
    line: int | None = Field(description="Line of the text, from 1; null where there is none.")
    message: str


class ConfigurationAnswer(Answer):
    """The file, and whether it may be changed here."""

    path: str
    text: str | None = Field(
        description="With `<hidden-N>` in the place of each secret; null where the file cannot be "
        "read, so that nobody knows what is secret in it."
    )
    tag: str = Field(description="Names this version; the `ETag` without its quotes.")
    writable: bool
    reason: str | None = Field(description="Why it may not be changed here.")
    in_force: bool = Field(description="Whether the gateway goes by what the file holds now.")
    needs_restart: list[str] = Field(
        description="Blocks or keys in it that differ from what the gateway goes by until it is "
        "restarted."
    )
    problems: list[ConfigProblem] = Field(description="What does not hold in it now.")


class CheckBody(Shape):
    """An edited text."""

    text: Text = Field(
        max_length=_MOST_CHARS,
        description="Whole; each `<hidden-N>` stands for what is in the file there.",
    )
    effects: bool = Field(default=False, description="Say what a reload would do, too.")


class SaveBody(Shape):
    """What the file is to hold."""

    text: Text = Field(
        max_length=_MOST_CHARS,
        description="Whole; each `<hidden-N>` stands for what is in the file there.",
    )


class CheckAnswer(Answer):
    """What does not hold in a text; nothing of it is in force."""

    problems: list[ConfigProblem]
    effects: ReloadEffects | None = Field(
        description="What a reload would do; null where that was not asked or it does not hold."
    )


class SaveAnswer(Answer):
    """The file was written; the gateway reads it within two seconds."""

    tag: str = Field(description="Names the version that was written.")
    effects: ReloadEffects


_IF_MATCH = {"If-Match": "The `ETag` of the version that was edited."}


def routes(live: LiveGateway) -> list[Route]:
    """The routes."""
    return [
        Route("GET", "/v1/configuration", partial(_show, live), "The configuration file",
              ConfigurationAnswer, access="admin", tag="gateway", problems=(404,),
              description="Secrets are hidden; comments and everything else are as they are."),
        Route("GET", "/v1/configuration/schema", partial(_schema, live),
              "JSON Schema of the configuration file", Answer, access="admin", tag="gateway",
              problems=(404,)),
        Route("POST", "/v1/configuration/check", partial(_check, live),
              "Check a configuration without applying it", CheckAnswer, access="admin",
              tag="gateway", body=CheckBody, header_params=_IF_MATCH, problems=(404, 412, 428)),
        Route("PUT", "/v1/configuration", partial(_save, live), "Replace the configuration file",
              SaveAnswer, access="admin", tag="gateway", body=SaveBody, header_params=_IF_MATCH,
              problems=(404, 412, 428),
              description="In one step, after the check; refused with `problems` where it does "
              "not hold. Needs `server.config_editing` and a file that can be written."),
    ]  # fmt: skip


def _file(live: LiveGateway) -> ConfigurationFile:
    if live.configuration is None:
        raise Problem(404, "no_configuration", "this gateway was not started from a file")
    return live.configuration


def _tag(call: RestCall) -> str:
    given = call.request.headers.get("If-Match", "").strip()
    if not given:
        message = "send If-Match with the ETag of the version that was edited"
        raise Problem(428, "if_match_needed", message, parameter="If-Match")
    return given.removeprefix("W/").strip('"')


def _stale(error: Stale) -> Problem:
    return Problem(412, "changed_meanwhile", error.message, parameter="If-Match")


async def _show(live: LiveGateway, call: RestCall) -> Reply:
    try:
        found = await _file(live).show()
    except ConfigError as error:
        raise Problem(503, error.code, error.message) from None
    return Reply(found, headers={"ETag": f'"{found["tag"]}"'})


async def _schema(live: LiveGateway, call: RestCall) -> Reply:
    return Reply(await _file(live).schema())


async def _check(live: LiveGateway, call: RestCall) -> Reply:
    try:
        return Reply(await _file(live).check(call.body.text, _tag(call), call.body.effects))
    except Stale as error:
        raise _stale(error) from None
    except ConfigError as error:
        raise Problem(503, error.code, error.message) from None


async def _save(live: LiveGateway, call: RestCall) -> Reply:
    if call.principal.delegated:
        raise AccessDenied(
            "what a configuration holds outlasts the login with which you let this program in; "
            "save it in the console after logging in there, or with an API key or a static token"
        )
    try:
        saved = await _file(live).save(call.body.text, _tag(call))
    except Stale as error:
        raise _stale(error) from None
    except NotWritable as error:
        raise Problem(403, "not_writable", error.message) from None
    except Refused as error:
        first = error.found[0]
        line = f"line {first['line']}: " if first["line"] else ""
        where = f"{first['path']}: " if first["path"] else ""
        raise Problem(
            422,
            error.code,
            f"{error.message}; {line}{where}{first['message']}",
            parameter=first["path"] or None,
            more={"problems": list(error.found)},
        ) from None
    except ConfigError as error:
        raise Problem(503, error.code, error.message) from None
    _log.info("configuration_saved", who=call.principal.owner, request_id=call.request_id)
    return Reply(saved, headers={"ETag": f'"{saved["tag"]}"'})
