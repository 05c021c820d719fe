"""A request together with the view that serves it.

Owns: `RequestContext`. Never imports a transport.
"""

from __future__ import annotations

import msgspec

from armory.gateway.requests import ClientRequest
from armory.gateway.views.view import View
from armory.protocol.link import ClientChannel


class RequestContext(ClientRequest, frozen=True, kw_only=True, eq=False):
    """One request while it is being served.

    Attributes:
        view: what the caller is served from: taken once, so that a request sees one snapshot
            however long it lasts.
    """

    view: View

    def with_client(self, client: ClientChannel) -> RequestContext:
        """A copy of the request with another channel to its client."""
        return msgspec.structs.replace(self, client=client)


def served_from(request: ClientRequest, view: View) -> RequestContext:
    """The context of a request that is served from `view`."""
    return RequestContext(
        request.principal,
        request.client,
        request.era,
        request.version,
        request.endpoint,
        request.session,
        request.meta,
        request.headers,
        request.url,
        request.id,
        request.remote,
        request.origin,
        request.everything,
        view=view,
    )
