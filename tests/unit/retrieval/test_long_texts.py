"""What stands under a chat or a stack trace is found as well as by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.lexical.intents import MAX_CLAUSES
from armory.retrieval.rankers.fusion import fuse
from armory.retrieval.rankers.signals import candidate_signals, query_signals
from armory.retrieval.registry import build_retriever
from armory.retrieval.retriever import Retriever

TOOLS = {
    "github__create_issue": "Create a new issue in a GitHub repository",
    "github__merge_pull_request": "Merge a pull request in a GitHub repository",
    "slack__post_message": "Post a new message to a Slack channel or direct message to user",
    "browser__take_screenshot": "Take a screenshot of the current page",
    "browser__navigate": "Navigate to a URL",
    "database__execute_sql": "Execute any SQL query",
    "database__top_queries": "Reports the slowest queries of the database",
    "files__read_file": "Read the complete contents of a file from the file system",
    "files__write_file": "Create a new file or overwrite an existing one",
    "mail__send_email": "Sends a new email",
    "weather__get_forecast": "Get weather forecast for a location",
    "billing__create_refund": "Refund a payment of a customer",
}
CHAT = """User: Hi! I'm working on a web shop in Django. We have around 20k users.
Assistant: Great, how can I help you today?
User: First I wanted to understand why our checkout page is slow. It takes around 5 seconds to load.
Assistant: There may be several reasons. You could have large images, or blocking scripts.
User: OK we already compressed the images. The bundle is 300 kB. I think it's fine.
Assistant: Then the ORM is a good candidate. N+1 is quite common. Use select_related.
User: Right, we did that last month. Bob said it improved a bit, but not much.
User: """
TRACE = """Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/django/core/handlers/exception.py", line 55, in inner
    response = get_response(request)
  File "/usr/lib/python3.11/site-packages/django/core/handlers/base.py", line 197, in _get_response
    response = wrapped_callback(request, *callback_args, **callback_kwargs)
  File "/srv/shop/checkout/views.py", line 88, in post
    order = Order.objects.create(user=request.user, total=cart.total)
  File "/usr/lib/python3.11/site-packages/django/db/models/manager.py", line 87, in manager_method
    return getattr(self.get_queryset(), name)(*args, **kwargs)
django.db.utils.IntegrityError: null value in column "total" violates not-null constraint

"""

pytestmark = pytest.mark.anyio
MakeTool = Callable[..., ToolRecord]


@pytest.fixture
async def retriever(make_tool: MakeTool) -> AsyncIterator[Retriever]:
    async with build_retriever() as made:
        split = [(key.split("__"), text) for key, text in TOOLS.items()]
        await made.index([make_tool(name, text, server) for (server, name), text in split])
        yield made


@pytest.mark.parametrize("before", [CHAT, TRACE], ids=["chat", "trace"])
@pytest.mark.parametrize(
    ("wish", "wanted"),
    [
        ("Please create an issue on GitHub.", "github__create_issue"),
        ("Post a message to Bob on Slack that I look into it.", "slack__post_message"),
        ("Take a screenshot of the checkout page.", "browser__take_screenshot"),
    ],
)
async def test_a_wish_below_is_found(
    retriever: Retriever, before: str, wish: str, wanted: str
) -> None:
    found = await retriever.search(Query((before + wish,)))
    assert wanted in [match.tool.name for match in found.matches]


async def test_how_it_is_put_tells_the_wish_and_not_the_chat(retriever: Retriever) -> None:
    told = "The shop was slow on Monday. " * 3 + "It was slow on Friday, too. The bundle is large. "
    asked = "Then Bob told a joke about why people would write poems. "
    wishes = "Restart the web server. Merge the pull request. Refund the customer. " * 2
    found = await retriever.rank(Query((told + asked + wishes + "Tell Anna. Create an issue.",)))
    features = found.features
    put = query_signals(features, candidate_signals(features, fuse(features)))
    assert put["clauses"] == MAX_CLAUSES
    assert put["form_why"] == put["form_supposed"] == put["form_language"] == 0
