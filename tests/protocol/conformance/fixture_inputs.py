"""The tools that ask the client for input before they answer, in one round or several."""

from __future__ import annotations

import mcp_types as types
from fixture_kit import (
    ROOTS,
    Answered,
    Asked,
    Ctx,
    Result,
    elicit,
    fixture,
    gather,
    modern,
    plain,
    sample,
    strings,
    text,
    told,
)
from mcp.shared.exceptions import MCPError


@fixture("test_input_required_result_elicitation", "Asks for a name")
async def input_elicitation(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    form = elicit("What is your name?", strings("name"))

    def hello(got: Answered) -> str:
        return f"Hello, {(got['user_name'].content or {}).get('name', 'stranger')}!"

    return await told(ctx, params, {"user_name": form}, hello)


@fixture("test_input_required_result_sampling", "Asks the client's model for a capital")
async def input_sampling(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    asked: dict[str, Asked] = {"capital_question": sample("What is the capital of France?")}
    return await told(ctx, params, asked, lambda got: plain(got["capital_question"]))


@fixture("test_input_required_result_list_roots", "Asks for the client's roots")
async def input_roots(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    asked: dict[str, Asked] = {"client_roots": ROOTS}
    return await told(ctx, params, asked, lambda got: plain(got["client_roots"]))


_CONFIRM = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
}


@fixture("test_input_required_result_request_state", "Carries state over the question")
async def input_state(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    asked: dict[str, Asked] = {"confirm": elicit("Please confirm", _CONFIRM)}
    if modern(ctx) and params.input_responses and params.request_state != "asked-once":
        raise MCPError(code=types.INVALID_PARAMS, message="The request state does not fit")
    return await told(ctx, params, asked, lambda _: "state-ok", "asked-once")


@fixture("test_input_required_result_tampered_state", "Refuses state that was tampered with")
async def input_tampered(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    return await input_state(ctx, params)


@fixture("test_input_required_result_multiple_inputs", "Asks for three things at once")
async def input_several(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    asked: dict[str, Asked] = {
        "user_name": elicit("What is your name?", strings("name")),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    return await told(ctx, params, asked, lambda got: plain(sorted(got)), "three-asked")


@fixture("test_input_required_result_multi_round", "Asks in two rounds")
async def input_rounds(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    first: dict[str, Asked] = {
        "step1": elicit("Step 1: What is your name?", strings("name")),
    }
    second: dict[str, Asked] = {
        "step2": elicit("Step 2: What is your favorite color?", strings("color")),
    }
    if modern(ctx):
        if params.request_state == "round-2":
            return await told(ctx, params, second, lambda got: plain(got["step2"]), "round-2")
        answers = await gather(ctx, params, first, "round-1")
        if isinstance(answers, types.InputRequiredResult):
            return answers
        return types.InputRequiredResult(input_requests=dict(second), request_state="round-2")
    await gather(ctx, params, first)
    return await told(ctx, params, second, lambda got: plain(got["step2"]))


@fixture("test_input_required_result_capabilities", "Asks only for what the client can do")
async def input_capabilities(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    declared = ctx.session.client_capabilities
    asked: dict[str, Asked] = {}
    if declared is not None and declared.sampling is not None:
        asked["model"] = sample("Say something")
    if declared is not None and declared.elicitation is not None:
        asked["user"] = elicit("Say something", strings("something"))
    if not asked:
        return text("The client can be asked nothing.")
    return await told(ctx, params, asked, lambda got: plain(sorted(got)))
