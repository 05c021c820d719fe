"""The chat client against a local server that speaks the API, and misbehaves."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from armory.llm.client import ChatClient, Message
from armory.llm.errors import (
    ChatError,
    ChatLimited,
    ChatMalformed,
    ChatRejected,
    ChatTimeout,
    ChatUnavailable,
)
from armory.testing.chat import ScriptedChat, Turn

pytestmark = pytest.mark.anyio

ASK: list[Message] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "yes?"},
    {"role": "user", "content": "go on"},
]


def client(server: ScriptedChat, *, timeout_s: float = 5.0, retries: int = 0) -> ChatClient:
    return ChatClient(
        server.url, "small", api_key="secret-key", timeout_s=timeout_s, max_retries=retries
    )


async def test_a_completion_carries_text_and_counts() -> None:
    async with ScriptedChat(["hi there"]) as server, client(server) as chat:
        answer = await chat.complete(ASK, max_tokens=50, stop=("\nObservation:",))
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("hi there", 100, 10)
    assert answer.finish_reason == "stop"
    sent = server.requests[0]
    assert sent["messages"] == ASK
    assert sent["model"] == "small"
    assert sent["max_tokens"] == 50
    assert sent["stop"] == ["\nObservation:"]
    assert sent["temperature"] == 0
    assert server.keys == ["secret-key"]


@pytest.mark.parametrize(
    "usage",
    [False, None, {}, "none", [], {"prompt_tokens": None}, {"prompt_tokens": "7", "total": 7}],
    ids=repr,
)
async def test_counts_are_estimated_when_the_server_sends_none(usage: Any) -> None:
    async with (
        ScriptedChat([Turn("one two three", usage=usage)]) as server,
        client(server) as chat,
    ):
        answer = await chat.complete(ASK)
    assert 15 <= answer.prompt_tokens <= 40
    assert 2 <= answer.completion_tokens <= 5


async def test_half_a_character_is_replaced() -> None:
    async with ScriptedChat(["party \ud83d"]) as server, client(server) as chat:
        assert (await chat.complete(ASK)).text == "party ?"


CALL = {"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"query": "x"}'}}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]}, "a b"),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "yes"},
                    {"type": "text"},
                    "?",
                ]
            },
            "yes",
        ),
        ({"content": "said", "tool_calls": [CALL]}, "said"),
        (
            {"content": None, "tool_calls": [CALL]},
            '{"name": "f", "arguments": "{\\"query\\": \\"x\\"}"}',
        ),
        ({"content": "", "tool_calls": [{}, 3]}, ""),
        ({"content": None, "refusal": "I will not"}, "I will not"),
        ({"content": {"text": "x"}}, ""),
    ],
    ids=["parts", "thinking aside", "text and call", "a call", "no call", "a refusal", "an object"],
)
async def test_a_message_is_read_however_it_is_put(message: dict[str, Any], text: str) -> None:
    turn = Turn(message=message)
    async with ScriptedChat([turn]) as server, client(server) as chat:
        assert (await chat.complete(ASK)).text == text


async def test_optional_parts_are_not_sent_unless_given() -> None:
    async with ScriptedChat(["x"]) as server, client(server) as chat:
        await chat.complete(ASK)
    assert not {"max_tokens", "stop"} & server.requests[0].keys()


async def test_a_stream_arrives_piece_by_piece() -> None:
    async with (
        ScriptedChat(["one two three"]) as server,
        client(server) as chat,
        aclosing(chat.stream(ASK)) as pieces,
    ):
        found = [piece async for piece in pieces]
    assert found == ["one", " two", " three"]


async def test_time_to_first_token_stops_at_the_first_piece() -> None:
    async with ScriptedChat(["one two three"]) as server, client(server) as chat:
        first = await chat.time_to_first_token(ASK)
    assert 0 < first.seconds < 5
    assert first.prompt_tokens > 10
    assert server.requests[0]["max_tokens"] == 8


@pytest.mark.parametrize("thinking", ["hm", "hm so"])
async def test_the_first_token_may_be_one_of_thinking(thinking: str) -> None:
    turn = Turn("", thinking=thinking)  # eight tokens are soon thought
    async with ScriptedChat([turn]) as server, client(server) as chat:
        assert (await chat.time_to_first_token(ASK)).seconds > 0
    turn = Turn("one two", thinking=thinking)
    async with (
        ScriptedChat([turn]) as server,
        client(server) as chat,
        aclosing(chat.stream(ASK)) as pieces,
    ):
        assert [piece async for piece in pieces] == ["one", " two"], "thinking is no answer"


async def test_an_answer_that_never_begins_has_no_first_token() -> None:
    async with ScriptedChat([Turn("")]) as server, client(server) as chat:
        with pytest.raises(ChatMalformed, match="empty text"):
            await chat.time_to_first_token(ASK)


def refusal(parameter: str | None, code: str | None, message: str) -> Turn:
    return Turn(status=400, error={"message": message, "param": parameter, "code": code})


async def test_parameters_that_are_refused_are_left_out_from_then_on() -> None:
    turns = [
        refusal("max_tokens", "unsupported_parameter", "Use 'max_completion_tokens' instead."),
        refusal("temperature", "unsupported_value", "Only the default (1) value is supported."),
        Turn(status=400, error="Argument not supported on this model: stop"),
        "hi",
    ]
    async with ScriptedChat(turns) as server, client(server) as chat:
        for _ in range(2):
            answer = await chat.complete(ASK, max_tokens=50, stop=("\nObservation:",))
            assert answer.text == "hi"
        await chat.time_to_first_token(ASK)
    assert len(server.requests) == 6
    for sent in server.requests[3:]:
        assert not {"max_tokens", "temperature", "stop"} & sent.keys()
    assert server.requests[4]["max_completion_tokens"] == 50
    assert server.requests[5]["max_completion_tokens"] == 8


@pytest.mark.parametrize(
    "turn",
    [
        refusal("messages", "unsupported_value", "The role is not supported."),
        refusal("max_tokens", "invalid_value", "max_tokens is too large: 50."),
        refusal(None, None, "This model does not support images."),
    ],
)
async def test_other_refusals_are_told_in_the_endpoints_words(turn: Turn) -> None:
    async with ScriptedChat([turn]) as server, client(server) as chat:
        with pytest.raises(ChatRejected) as caught:
            await chat.complete(ASK, max_tokens=50)
    assert f"HTTP 400; it says: {turn.error['message']}" in str(caught.value)
    assert len(server.requests) == 1


async def test_an_endpoints_words_are_cut_and_show_no_secrets() -> None:
    said = "the keys secret-key and sk-abcdefghij0 are\nwrong " + "x" * 5_000
    async with (
        ScriptedChat([refusal(None, None, said)]) as server,
        client(server) as chat,
    ):
        with pytest.raises(ChatRejected) as caught:
            await chat.complete(ASK)
    told = str(caught.value)
    assert "the keys *** and *** are wrong x" in told
    assert len(told) < 500


async def test_a_parameter_that_goes_on_being_refused_is_an_error() -> None:
    turn = refusal("stop", "unsupported_parameter", "No stop.")
    async with ScriptedChat([turn]) as server, client(server) as chat:
        with pytest.raises(ChatRejected, match=r"No stop\."):
            await chat.complete(ASK, stop=("x",))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("turn", "error", "said"),
    [
        (Turn(status=429, headers={"Retry-After": "7"}), ChatLimited, "for now"),
        (Turn(status=500), ChatUnavailable, "HTTP 500"),
        (
            Turn(status=429, error={"message": "You exceeded your current quota"}),
            ChatLimited,
            "for now; it says: You exceeded your current quota",
        ),
        (
            Turn(status=500, error={"message": "model requires more memory than is available"}),
            ChatUnavailable,
            "HTTP 500; it says: model requires more memory",
        ),
        (Turn(status=401), ChatRejected, "check the key"),
        (
            Turn(status=404),
            ChatRejected,
            "check the model's name, and whether the URL is to end in",
        ),
        (Turn(status=400), ChatRejected, "HTTP 400"),
        (Turn(fault="close"), ChatUnavailable, "broke off before its answer was complete"),
        (Turn("hello", fault="truncate"), ChatUnavailable, "broke off before its answer"),
        (Turn(fault="garbage"), ChatMalformed, "no chat completion"),
        (Turn(fault="no_choices"), ChatMalformed, "no chat completion"),
        (
            Turn(fault="error_in_200", error={"code": 502, "message": "No host for secret-key"}),
            ChatUnavailable,
            "reported an error; it says: No host for",
        ),
    ],
)
async def test_each_fault_has_its_error(turn: Turn, error: type[ChatError], said: str) -> None:
    async with ScriptedChat([turn]) as server, client(server) as chat:
        with pytest.raises(error, match=said) as caught:
            await chat.complete(ASK)
    assert caught.value.code == "backend"
    assert "secret-key" not in str(caught.value)
    if error is ChatLimited:
        assert caught.value.retry_after_s == (7 if turn.headers else None)


@pytest.mark.parametrize("said", ["inf", "9" * 400, "\u00b2", "soon"])
async def test_a_wait_that_is_no_number_of_seconds_is_none(said: str) -> None:
    turn = Turn(status=429, headers={"Retry-After": said})
    async with ScriptedChat([turn]) as server, client(server) as chat:
        with pytest.raises(ChatLimited) as caught:
            await chat.complete(ASK)
    assert caught.value.retry_after_s is None


async def test_a_hanging_server_times_out() -> None:
    async with (
        ScriptedChat([Turn(fault="hang")]) as server,
        client(server, timeout_s=0.2) as chat,
    ):
        with pytest.raises(ChatTimeout, match=r"0\.2 s"):
            await chat.complete(ASK)


async def test_passing_faults_are_tried_again() -> None:
    turns = [Turn(status=429, headers={"Retry-After": "0.01"}), Turn(fault="close"), "recovered"]
    async with ScriptedChat(turns) as server, client(server, retries=2) as chat:
        assert (await chat.complete(ASK)).text == "recovered"
    assert len(server.requests) == 3


async def test_a_refusal_is_not_tried_again() -> None:
    async with ScriptedChat([Turn(status=400), "never"]) as server, client(server, retries=2) as c:
        with pytest.raises(ChatRejected):
            await c.complete(ASK)
    assert len(server.requests) == 1


async def test_an_empty_answer_is_an_empty_text() -> None:
    async with ScriptedChat([Turn(fault="empty")]) as server, client(server) as chat:
        assert (await chat.complete(ASK)).text == ""


async def test_a_truncated_stream_is_an_error_after_its_pieces() -> None:
    found: list[str] = []

    async def read(chat: ChatClient) -> None:
        async with aclosing(chat.stream(ASK)) as pieces:
            async for piece in pieces:
                found.append(piece)  # noqa: PERF401 # kept when the stream breaks off

    async with (
        ScriptedChat([Turn("one two three four", fault="truncate")]) as server,
        client(server) as chat,
    ):
        with pytest.raises(ChatUnavailable):
            await read(chat)
    assert found[0] == "one"
    assert len(found) < 4


async def test_a_hanging_stream_times_out() -> None:
    async with (
        ScriptedChat([Turn(fault="hang")]) as server,
        client(server, timeout_s=0.2) as chat,
    ):
        with pytest.raises(ChatTimeout):
            await chat.time_to_first_token(ASK)


async def test_an_unreachable_server_says_what_to_start() -> None:
    async with ScriptedChat(["x"]) as server:
        url = server.url
    async with ChatClient(url, "small", max_retries=0) as chat:
        with pytest.raises(ChatUnavailable, match="ollama serve"):
            await chat.complete(ASK)
