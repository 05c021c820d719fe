"""The route type, from which both the server and the API description are built.

Owns: what a route is. Never imports a handler; handlers list their routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo, field_validator

from armory.accounts.plans import Standing
from armory.domain.encoding import is_encodable
from armory.domain.principal import Principal
from armory.security.authentication import ADMIN
from armory.web.rest.problems import Problem
from armory.web.rest.services import RestServices, RetrievalOff, retrieval_off

Access = Literal["public", "caller", "user", "admin"]


def storable(text: str) -> str:
    """Check that every database can store a text: no NUL, no lone surrogate.

    Raises:
        ValueError: the text has one.
    """
    if "\x00" in text:
        raise ValueError("contains a NUL character")
    if not is_encodable(text):
        raise ValueError("contains a lone surrogate")
    return text


Text = Annotated[str, AfterValidator(storable)]


def _kinds(annotation: Any) -> set[Any]:
    """The types that an annotation consists of."""
    return {annotation}.union(*map(_kinds, get_args(annotation)))


class Shape(BaseModel):
    """A JSON object of the API: unknown members are refused."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _whole(cls, value: Any, info: ValidationInfo) -> Any:
        """`3.0` is a whole number, as JSON Schema has it: some languages write 3 so."""
        if isinstance(value, float) and value.is_integer():
            kinds = _kinds(cls.model_fields[str(info.field_name)].annotation)
            return int(value) if int in kinds and float not in kinds else value
        return value


class Answer(BaseModel):
    """A JSON object that the API answers with."""

    model_config = ConfigDict(extra="allow", defer_build=True)


@dataclass(frozen=True, slots=True, eq=False)
class RestCall:
    """One validated request.

    Attributes:
        services: see `RestServices`.
        principal: who asks.
        request_id: echoed in the answer.
        path: path parameters.
        params: the query parameters as the route's model.
        body: the body as the route's model, or its members as JSON (`Route.verbatim`).
        request: the request itself, for what streams.
        cors: headers that let the browser page that asked read the answer, likewise.
    """

    services: RestServices
    principal: Principal
    request_id: str
    path: Mapping[str, str]
    params: Any
    body: Any
    request: web.Request
    cors: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def admin(self) -> bool:
        """Whether the caller administers this gateway."""
        return ADMIN in self.principal.scopes

    @property
    def makes_user(self) -> bool:
        """Whether the caller's user is created if it does not exist. Not for API keys: their user
        exists, or was just deleted.
        """
        return self.principal.method != "api_key"

    async def count(self) -> None:
        """Count the request against the caller's rate; for routes that do so by themselves.

        Raises:
            RateLimited: it is one too many.
        """
        if self.services.take is not None:
            await self.services.take(self.principal)

    async def spend(self) -> Standing | None:
        """Count one search of the caller; returns the state of its plan, None where it has none.

        Raises:
            BackendError: nothing is searched here.
            RateLimited: it is one too many.
        """
        if isinstance(self.services.engine, RetrievalOff):
            raise retrieval_off()
        if self.services.searching is not None:
            await self.services.searching(self.principal)
        return await self.services.accounts.spend(self.principal)

    @property
    def user(self) -> str:
        """The caller's user.

        Raises:
            Problem: the credential belongs to no user.
        """
        if self.principal.user is None:
            raise Problem(
                403, "access_denied", "this credential belongs to no user; use one that does"
            )
        return self.principal.user


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: `body` is encoded as JSON, bytes are sent unchanged."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Handler = Callable[[RestCall], Awaitable[Reply | web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    Attributes:
        method, path: as aiohttp takes them.
        handler: what answers.
        summary: one line for the description.
        answer: model of the answer; None: no content.
        access: who may: anybody, whoever is authenticated, one with a user, an administrator.
        tag: group in the description.
        params: model of the query parameters.
        body: model of the body.
        path_params: what each path parameter is.
        header_params: what each header that it needs is.
        problems: statuses beside those that every route has.
        status: of success.
        streams: whether it can answer `text/event-stream` too.
        accounts: whether it needs `accounts.enabled`.
        description: more than the summary.
        limit_headers: whether answers carry X-RateLimit-*.
        counts: whether it counts against the caller's rate by itself.
        verbatim: whether the members of the body come as they were sent, each as JSON.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: type[BaseModel] | None
    access: Access = "caller"
    tag: str = "retrieval"
    params: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    path_params: Mapping[str, str] = field(default_factory=dict[str, str])
    header_params: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: Sequence[int] = ()
    status: int = 200
    streams: bool = False
    accounts: bool = False
    description: str = ""
    limit_headers: bool = False
    counts: bool = False
    verbatim: bool = False

    @property
    def operation(self) -> str:
        """The unique operation id in the description."""
        words = self.path.replace("{", "").replace("}", "").replace("_", "/").split("/")
        return "_".join([self.method.lower(), *(word for word in words if word)])

    @property
    def statuses(self) -> list[int]:
        """All statuses that it can answer with, except success."""
        found = {405, 500, 503, *self.problems}
        if self.access != "public":
            found |= {400, 401, 403, 429}
        if self.params is not None or self.path_params:
            found.add(422)
        if self.body is not None:
            found |= {400, 413, 415, 422}
        if self.path_params or self.accounts:
            found.add(404)
        return sorted(found)
