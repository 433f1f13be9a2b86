"""Guards over the real pipeline: every client format, streamed and whole."""

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from gateway.guard_mark import Action, Stage
from gateway.stores.rows import REQUEST_COLUMNS, rows_of
from gateway.types import OLLAMA, Operation, Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
CARD = "4111 1111 1111 1111"
CARDS = r"patterns: ['\b[0-9]{4}( [0-9]{4}){3}\b'], replacement: '[card]'"
SAID = f"my card is {CARD} ok"

BODIES: dict[Operation, dict[str, Any]] = {
    Operation.CHAT: {"messages": [{"role": "user", "content": f"hi {CARD}"}]},
    Operation.COMPLETION: {"prompt": f"hi {CARD}"},
    Operation.MESSAGES: {"messages": [{"role": "user", "content": f"hi {CARD}"}], "max_tokens": 100},
    Operation.RESPONSE: {"input": f"hi {CARD}"},
    Operation.OLLAMA_CHAT: {"messages": [{"role": "user", "content": f"hi {CARD}"}]},
    Operation.OLLAMA_GENERATE: {"prompt": f"hi {CARD}"},
}
every_format = pytest.mark.parametrize("operation", list(BODIES))
whole_and_streamed = pytest.mark.parametrize("stream", [True, False])


def policy(*guards: str, first: str = "", route: str = "", second: str = "") -> str:
    """One route over one backend that says the number of a card, or over two, with these guards."""
    price = "models: {small: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}}}"
    dearer = "models: {small: {price: {input_usd_per_mtok: 2, output_usd_per_mtok: 2}}}"
    other = f"second: {{use: fake, {dearer}, {second}}}" if second else ""
    first = ", ".join(part for part in ("" if "text:" in first else f"text: {SAID}", first, price) if part)
    targets = "[first/small, second/small]" if second else "[first/small]"
    return f"""
        backends:
          first: {{use: fake, {first}}}
          {other}
        routes:
          main:
            models: [small]
            targets: {targets}
            cost: [money]
            {route}
            guards: [{", ".join(guards)}]
    """


def guard(when: str, action: str, **more: str) -> str:
    """A guard against numbers of cards."""
    fields = {"when": when, "use": "pattern", "action": action, "on_error": "refuse", **more}
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + f", {CARDS}}}"


def asked(make_exchange: Any, operation: Operation, *, stream: bool = False, **more: Any) -> Any:
    """An exchange of a client who writes the number of a card."""
    body = {"model": "small", "stream": stream, **BODIES[operation], **more}
    return make_exchange(operation=operation, body=msgspec.json.encode(body))


def said(exchange: Any) -> str:
    """All text of an answer of any format, whole or streamed: once, whatever the format tells twice."""
    blocks = exchange.received.replace(b"\n\n", b"\n").split(b"\n")
    found = []
    for block in blocks:
        data = block.removeprefix(b"data: ")
        if not data.startswith(b"{"):
            continue
        event = msgspec.json.decode(data)
        if event.get("type", "").startswith("response.") and not event["type"].endswith(".delta"):
            continue
        found += _texts(event)
    return "".join(found)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [
            inner
            for name, inner in value.items()
            if name in {"text", "content", "delta", "response"} and isinstance(inner, str)
        ]
        return own + [text for inner in value.values() for text in _texts(inner)]
    return [text for inner in value for text in _texts(inner)] if isinstance(value, list) else []


def marks(entry: Any) -> list[tuple[str, Stage, Action, bool]]:
    """What guards did."""
    return [(mark.guard, mark.stage, mark.action, mark.failed) for mark in entry.guards]


# ---- before ---------------------------------------------------------------------------------------------------------


@every_format
async def test_what_is_redacted_reaches_nobody(
    open_house: OpenHouse, make_exchange: Any, clock: Any, operation: Operation
) -> None:
    """Neither the backend nor the ledger; the answer says so, and all other fields go on as they came."""
    async with open_house(policy(guard("before", "redact", name="cards"), first="text: ok"), clock=clock) as house:
        calls = _spy(house.backend("first"))
        other = {"options": {"temperature": 0.25}} if operation in OLLAMA else {"temperature": 0.25}
        exchange = await house.serve(asked(make_exchange, operation, **other))
        (call,) = calls
        sent = msgspec.json.encode(call.request.raw).decode()
        assert (200, "cards:redact") == (exchange.status, exchange.answer_headers["x-headrace-guards"])
        assert ("hi [card]" in sent, CARD in sent, '"temperature":0.25' in sent) == (True, False, True)
        entry = house.entry
        assert entry.request is call.request
        assert [("cards", Stage.BEFORE, Action.REDACT, False)] == marks(entry)
        row = dict(zip(REQUEST_COLUMNS, rows_of(entry).request_row(), strict=True))
        assert ("cards:redact", "ok") == (row["guards"], row["status"])


def _spy(backend: Any) -> list[Any]:
    """The calls that a backend gets from now on."""
    calls: list[Any] = []
    send = type(backend).send

    async def spying(self: Any, call: Any, sink: Any) -> Any:
        calls.append(call)
        return await send(self, call, sink)

    object.__setattr__(backend, "__class__", type(type(backend).__name__, (type(backend),), {"send": spying}))
    return calls


@every_format
@whole_and_streamed
async def test_what_is_blocked_costs_nobody_anything(
    open_house: OpenHouse, make_exchange: Any, clock: Any, operation: Operation, stream: bool
) -> None:
    """The client is told in its own format, and that asking again is no use; no backend is asked."""
    async with open_house(policy(guard("before", "block")), clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, operation, stream=stream))
        assert (400, "pattern:block") == (exchange.status, exchange.answer_headers["x-headrace-guards"])
        assert b"the guard `pattern` does not let the request pass" in exchange.received
        assert (0, (), Decimal(0)) == (house.backend("first").open_calls, house.entry.attempts, house.entry.cost_usd)
        assert (Status.REJECTED, "GuardBlocked") == (house.entry.outcome.status, house.entry.outcome.error)
        assert house.is_quiet()


async def test_openai_clients_read_the_code_of_content_filters(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """As they know it of other providers."""
    async with open_house(policy(guard("before", "block")), clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, Operation.CHAT))
        assert ("content_filter", "invalid_request_error") == (
            exchange.json["error"]["code"],
            exchange.json["error"]["type"],
        )


async def test_guards_look_one_after_the_other_at_what_the_last_one_left(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The second finds what the first has put in."""
    second = "{when: before, use: pattern, name: second, patterns: ['[[]card[]]'], action: block, on_error: allow}"
    async with open_house(policy(guard("before", "redact"), second), clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, Operation.CHAT))
        assert 400 == exchange.status
        assert ["pattern:redact", "second:block"] == exchange.answer_headers["x-headrace-guards"].split(", ")


async def test_tokens_in_place_of_a_prompt_are_nothing_that_a_guard_can_look_at(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """What happens then is what the file says of errors."""
    for on_error, status in (("refuse", 400), ("allow", 200)):
        async with open_house(policy(guard("before", "block", on_error=on_error)), clock=clock) as house:
            body = b'{"model":"small","prompt":[1,2,3]}'
            exchange = await house.serve(make_exchange(operation=Operation.COMPLETION, body=body))
            assert (status, True) == (exchange.status, house.entry.guards[0].failed)
            if status == 400:
                assert exchange.json["error"]["message"].endswith("that it cannot look at: the prompt is tokens")


async def test_what_is_said_twice_under_one_name_is_not_let_in(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """A guard sees one of the two, and a backend might take the other."""
    twice = b'{"model":"small","messages":[{"role":"user","content":"%b","content":"hi"}]}' % CARD.encode()
    once = b'{"model":"small","messages":[{"role":"user","content":"a: \\"b\\": {}"}],"metadata":{"a":"1","b":"2"}}'
    for body, status in ((twice, 400), (once, 200)):
        async with open_house(policy(guard("before", "block")), clock=clock) as house:
            assert status == (await house.serve(make_exchange(body=body))).status


async def test_what_a_tool_is_said_to_be_for_is_a_text_too(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """And so is what its arguments are said to mean; the names of both stay."""
    parameters = {"type": "object", "properties": {"input": {"type": "string", "description": f"not {CARD}"}}}
    function = {"name": "pay", "description": f"pays with {CARD}", "parameters": parameters}
    async with open_house(policy(guard("before", "redact"), first="text: ok"), clock=clock) as house:
        calls = _spy(house.backend("first"))
        await house.serve(make_exchange(tools=[{"type": "function", "function": function}]))
        sent = msgspec.json.decode(calls[0].request.raw["tools"])
        assert "pays with [card]" == sent[0]["function"]["description"]
        kept = {"type": "string", "description": "not [card]"}
        assert kept == sent[0]["function"]["parameters"]["properties"]["input"]


async def test_a_kept_answer_is_for_the_question_without_what_was_redacted(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Two cards, one question; and who is blocked gets nothing out of the cache either."""
    text = policy(guard("before", "redact"), first="text: ok", route="cache: {ttl_s: 60}")
    async with open_house(text, clock=clock) as house:
        uses = []
        for card in (CARD, "5500 0000 0000 0004", "none"):
            body = {"messages": [{"role": "user", "content": f"hi {card}"}], "temperature": 0}
            uses.append((await house.serve(make_exchange(**body))).answer_headers["x-headrace-cache"])
        assert ["miss", "hit", "miss"] == uses


# ---- after ----------------------------------------------------------------------------------------------------------


@every_format
@pytest.mark.parametrize(("stream", "mode"), [(False, "hold"), (True, "hold"), (True, "window")])
@pytest.mark.parametrize("chunk_bytes", [0, 7])
async def test_an_answer_goes_out_without_what_is_redacted(
    open_house: OpenHouse,
    make_exchange: Any,
    clock: Any,
    operation: Operation,
    stream: bool,
    mode: str,
    chunk_bytes: int,
) -> None:
    """The same words in all formats and ways, and the backend's own count of tokens."""
    text = policy(guard("after", "redact", stream=mode), first=f"chunk_bytes: {chunk_bytes}")
    async with open_house(text, clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, operation, stream=stream))
        assert (200, "my card is [card] ok") == (exchange.status, said(exchange))
        assert CARD.encode() not in exchange.received
        entry = house.entry
        assert [("pattern", Stage.AFTER, Action.REDACT, False)] == marks(entry)
        assert (Status.OK, "stop", 8) == (
            entry.outcome.status,
            entry.outcome.finish_reason,
            entry.attempts[0].usage.output_tokens,
        )
        assert ("open" in exchange.calls, "close" in exchange.calls) == (stream, stream)
        assert house.is_quiet()
    if mode == "hold":
        assert "pattern:redact" == exchange.answer_headers["x-headrace-guards"]


@every_format
@pytest.mark.parametrize(("stream", "mode"), [(False, "hold"), (True, "hold"), (True, "window")])
async def test_what_nothing_is_found_in_goes_out_as_it_came(
    open_house: OpenHouse, make_exchange: Any, clock: Any, operation: Operation, stream: bool, mode: str
) -> None:
    """Byte for byte, and without a word of guards."""
    exchanges = []
    for guards in ((guard("after", "redact", stream=mode),), ()):
        async with open_house(policy(*guards, first="text: nothing to see here"), clock=clock) as house:
            exchanges.append(await house.serve(asked(make_exchange, operation, stream=stream)))
    ids = [exchange.answer_headers["x-request-id"].removeprefix("req_").encode() for exchange in exchanges]
    said = [exchange.received.replace(own, b"ID") for exchange, own in zip(exchanges, ids, strict=True)]
    assert 1 == len({re.sub(rb'"completed_at":[0-9]+', b"", one) for one in said})  # a second may end between them
    assert "x-headrace-guards" not in exchanges[0].answer_headers


@every_format
@pytest.mark.parametrize("stream", [False, True])
async def test_a_whole_answer_that_is_blocked_is_an_error_and_its_backend_did_well(
    open_house: OpenHouse, make_exchange: Any, clock: Any, operation: Operation, stream: bool
) -> None:
    """Nobody else is asked, the tokens are paid and counted exactly, and the backend is not blamed."""
    text = policy(guard("after", "block"), second="text: fine")
    async with open_house(text, clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, operation, stream=stream))
        entry = house.entry
        assert (400, 1) == (exchange.status, len(entry.attempts))
        assert b"does not let the answer pass" in exchange.received
        assert CARD.encode() not in exchange.received
        (attempt,) = entry.attempts
        assert (Status.OK, False, 8) == (attempt.status, attempt.usage.estimated, attempt.usage.output_tokens)
        assert entry.cost_usd == attempt.cost_usd
        assert (Status.REJECTED, 400, "GuardBlocked") == (
            entry.outcome.status,
            entry.outcome.http_status,
            entry.outcome.error,
        )
        assert (0, 0) == (house.backend("second").open_calls, house.fleet.in_flight["first"])
        assert house.is_quiet()


LAST_EVENTS: dict[Operation, list[str]] = {
    Operation.CHAT: ['"finish_reason":"content_filter"', "[DONE]"],
    Operation.COMPLETION: ['"finish_reason":"content_filter"', "[DONE]"],
    Operation.MESSAGES: ['"content_block_stop"', '"stop_reason":"refusal"', '"message_stop"'],
    Operation.RESPONSE: ['"incomplete_details":{"reason":"content_filter"}'],
    Operation.OLLAMA_CHAT: ['"done_reason":"content_filter"'],
    Operation.OLLAMA_GENERATE: ['"done_reason":"content_filter"'],
}


@every_format
async def test_a_stream_that_is_blocked_in_the_middle_ends_as_its_format_ends_a_filtered_one(
    open_house: OpenHouse, make_exchange: Any, clock: Any, operation: Operation
) -> None:
    """What came before was shown; the backend is told to stop, what it wrote is paid, and nobody else is asked."""
    words = f"this is a rather long answer that goes on and on {CARD} and never comes to its end"
    text = policy(guard("after", "block", stream="window"), first=f"text: {words}, repeat: true", second="text: fine")
    async with open_house(text, clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, operation, stream=True))
        entry = house.entry
        assert 200 == exchange.status
        blocks = [
            block for block in exchange.received.decode().replace("\n\n", "\n").split("\n") if "event: " not in block
        ]
        last = [block for block in blocks if block][-len(LAST_EVENTS[operation]) :]
        assert [True] * len(last) == [
            ending in block for ending, block in zip(LAST_EVENTS[operation], last, strict=True)
        ]
        assert said(exchange).startswith("this is a rather long answer")
        assert ("4111" not in said(exchange), "close") == (True, exchange.calls[-1])
        assert (Status.REJECTED, "content_filter", "GuardBlocked") == (
            entry.outcome.status,
            entry.outcome.finish_reason,
            entry.outcome.error,
        )
        (attempt,) = entry.attempts
        assert (Status.TRUNCATED, "GuardBlocked", True) == (attempt.status, attempt.error, attempt.usage.estimated)
        assert attempt.cost_usd > 0
        assert (0, 1) == (house.backend("second").open_calls, house.backend("first").closed_calls)
        assert house.is_quiet()


async def test_a_backend_is_not_rested_for_what_a_guard_blocks(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """However often: the next request is served by it."""
    words = f"a rather long answer in which there is {CARD} somewhere"
    async with open_house(
        policy(guard("after", "block", stream="window"), first=f"text: {words}"), clock=clock
    ) as house:
        for _ in range(6):
            await house.serve(asked(make_exchange, Operation.CHAT, stream=True))
        assert 6 == house.backend("first").open_calls
        candidates = house.fleet.snapshot(house.route, house.entries[0].decision.ctx, house.world.backends)
        assert (None, 0.0) == (candidates[0].down, candidates[0].failure_rate)


async def test_each_choice_of_a_stream_is_a_text_of_its_own(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """And each of them ends when one is blocked."""
    words = f"a rather long answer in which there is {CARD} somewhere"
    for action, reason, ends in (("redact", "stop", 3), ("block", "content_filter", 3)):
        text = policy(guard("after", action, stream="window"), first=f"text: {words}")
        async with open_house(text, clock=clock) as house:
            exchange = await house.serve(asked(make_exchange, Operation.CHAT, stream=True, n=3))
            choices = [one for event in exchange.events if isinstance(event, dict) for one in event["choices"]]
            finished = {one["index"] for one in choices if one.get("finish_reason") == reason}
            assert ends == len(finished)
            texts = ["".join(one["delta"].get("content", "") for one in choices if one["index"] == n) for n in range(3)]
            if action == "redact":
                assert [words.replace(CARD, "[card]")] * 3 == texts


async def test_a_held_stream_that_breaks_is_another_backends_to_answer(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """Nobody has seen any of it; of the first answer nothing is left."""
    broken = failing("cut", after_chunks=3)
    text = policy(guard("after", "redact"), first=broken, second=f"text: second {CARD}")
    async with open_house(text, clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, Operation.CHAT, stream=True))
        assert (200, "second [card]", 2) == (exchange.status, exchange.text, len(house.entry.attempts))


async def test_what_a_window_holds_back_of_a_stream_that_breaks_goes_out_first(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """Then the error, as without guards."""
    broken = failing("cut", after_chunks=6)
    words = " ".join(f"word-number-{number}" for number in range(20))
    for cards in ("redact", "block"):
        text = policy(guard("after", cards, stream="window"), first=f"text: {words}, {broken}")
        async with open_house(text, clock=clock) as house:
            exchange = await house.serve(asked(make_exchange, Operation.CHAT, stream=True))
            assert ("error" in exchange.events[-1], Status.TRUNCATED) == (True, house.entry.outcome.status)
            assert exchange.text in words
            assert len(exchange.text.split()) >= 5


async def test_a_kept_answer_passes_its_guards_each_time(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """What is kept is what the backend said, so that other guards, after a reload, see that too."""
    text = policy(guard("after", "redact"), route="cache: {ttl_s: 60}")
    async with open_house(text, clock=clock) as house:
        for use in ("miss", "hit"):
            for stream in (False, True):
                exchange = await house.serve(asked(make_exchange, Operation.CHAT, stream=stream, temperature=0))
                assert (use, "my card is [card] ok") == (exchange.answer_headers["x-headrace-cache"], said(exchange))
        assert 2 == house.backend("first").open_calls
        assert [["pattern:redact"]] * 4 == [[mark.in_words() for mark in entry.guards] for entry in house.entries]


async def test_a_cascades_answer_is_looked_at_once_it_goes_out(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Judges see what the backend said; who lets it pass lets it pass to the guard."""
    steps = """
            cascade:
              - {targets: [first/small], judge: [{use: cel, expression: 'text.contains("4111")'}]}
              - {targets: [second/small]}
    """
    text = policy(guard("after", "redact"), route=steps, second="text: never asked")
    text = text.replace("            targets: [first/small, second/small]\n", "", 1)
    async with open_house(text, clock=clock) as house:
        for stream in (False, True):
            exchange = await house.serve(asked(make_exchange, Operation.CHAT, stream=stream))
            assert (200, "my card is [card] ok") == (exchange.status, said(exchange))
        await house.judging_is_over()
        assert [True, True] == [judged.judgement.success for judged in house.judged]


async def test_of_two_that_race_the_one_that_is_shown_is_looked_at(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The other one is outrun as ever."""
    hedge = "hedge: {quantile: 0.5, most_requests: 1, most_spend: 1}"
    text = policy(guard("after", "redact", stream="window"), route=hedge, second=f"text: also {CARD} here")
    async with open_house(text, clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, Operation.CHAT, stream=True))
        assert 200 == exchange.status
        assert "[card]" in exchange.text
        assert CARD not in exchange.text
        assert house.is_quiet()


async def test_a_response_is_kept_as_the_client_got_it(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """Whole or streamed; one that was blocked is not kept at all."""
    for action in ("redact", "block"):
        for stream in (False, True):
            async with open_house(policy(guard("after", action)), clock=clock) as house:
                await house.serve(asked(make_exchange, Operation.RESPONSE, stream=stream))
                memory = house.pipeline._memory
                name = "resp_" + house.entry.arrival.id.removeprefix("req_")
                kept = memory.get(house.entry.arrival.tenant, name)
                if action == "block":
                    assert kept is None
                else:
                    assert (True, False) == (b"[card]" in bytes(kept.response), CARD.encode() in bytes(kept.response))


async def test_what_was_redacted_of_a_response_is_not_there_when_it_is_gone_on_with(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The items that are kept are those that the guard let through."""
    async with open_house(policy(guard("before", "redact"), first="text: ok"), clock=clock) as house:
        calls = _spy(house.backend("first"))
        await house.serve(asked(make_exchange, Operation.RESPONSE))
        name = "resp_" + house.entry.arrival.id.removeprefix("req_")
        body = msgspec.json.encode({"model": "small", "input": "more", "previous_response_id": name})
        exchange = await house.serve(make_exchange(operation=Operation.RESPONSE, body=body))
        assert 200 == exchange.status
        sent = msgspec.json.encode(calls[1].request.raw).decode()
        assert ("hi [card]" in sent, CARD in sent) == (True, False)


async def test_who_only_annotates_does_not_hold_a_stream(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """It looks once the stream is out; what it says is on the ledger."""
    note = (
        "{when: after, use: cel, name: length, expression: 'size(answer)', action: annotate, stream: pass, "
        "on_error: allow}"
    )
    async with open_house(policy(note), clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, Operation.CHAT, stream=True))
        assert SAID == exchange.text
        assert "x-headrace-guards" not in exchange.answer_headers
        assert (("value", "33"),) == house.entry.guards[0].annotations
        whole = await house.serve(asked(make_exchange, Operation.CHAT))
        assert "length:annotate:value=33" == whole.answer_headers["x-headrace-guards"]


async def test_an_answer_longer_than_a_guard_may_hold_is_what_the_file_says_of_errors(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Refused, or shown as it comes from there on."""
    for on_error, status in (("refuse", 503), ("allow", 200)):
        rule = guard("after", "redact", on_error=on_error, most_bytes="1024")
        async with open_house(policy(rule, first="text: word, tokens: 100"), clock=clock) as house:
            exchange = await house.serve(asked(make_exchange, Operation.CHAT, stream=True))
            assert (status, True) == (exchange.status, house.entry.guards[0].failed)
            if status == 200:
                assert 100 == len(exchange.text.split())
            assert house.is_quiet()


async def test_a_tenants_guards_look_before_those_of_the_route(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """At all of its requests, and at nobody else's."""
    tenants = """
        tenants:
          strict:
            keys_sha256: [2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683]
            guards: [{when: before, use: pattern, name: own, patterns: [hi], action: block, on_error: refuse}]
          free: {keys_sha256: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]}
    """
    async with open_house(policy(guard("before", "redact")) + tenants, clock=clock) as house:
        statuses = []
        for key in (b"key", b"test"):
            exchange = asked(make_exchange, Operation.CHAT)
            exchange.headers = ((b"authorization", b"Bearer " + key),)
            await house.serve(exchange)
            statuses.append((exchange.status, exchange.answer_headers["x-headrace-guards"]))
        assert [(400, "own:block"), (200, "pattern:redact")] == statuses


async def test_no_guard_keeps_words_of_anybody(
    open_house: OpenHouse, make_exchange: Any, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither log, ledger nor headers say what was found."""
    rules = (guard("before", "redact"), guard("after", "block"))
    async with open_house(policy(*rules), clock=clock) as house:
        exchange = await house.serve(asked(make_exchange, Operation.CHAT))
        entry = house.entry
        told = f"{exchange.answer_headers}{exchange.received!r}{caplog.text}{entry.outcome}{entry.guards}"
        assert "4111" not in told


async def test_guards_are_not_heard_by_who_hangs_up(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """A client that does not read a held stream leaves like any other."""
    async with open_house(policy(guard("after", "redact")), clock=clock) as house:
        exchange = asked(make_exchange, Operation.CHAT, stream=True)
        exchange.reading.clear()
        task = house.begin(exchange)
        await asyncio.wait_for(exchange.blocked.wait(), 5)
        exchange.hang_up()
        await asyncio.wait([task])
        assert (Status.CLIENT_GONE, True) == (house.entry.outcome.status, house.is_quiet())
