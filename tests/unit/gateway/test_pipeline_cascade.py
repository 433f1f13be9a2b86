from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from gateway.judgement import Occasion
from gateway.stores.rows import REQUEST_COLUMNS, rows_of
from gateway.types import Operation, Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]

GOOD, BAD = '{"a":1}', "well, yes"


def _policy(cheap: str = "", step: str = "", route: str = "", *, text: str = BAD, judge: str = "[valid_json]") -> str:
    """Two steps: the cheap one says ``text``, and the strong one what passes."""
    price = "models: {small: {price: {input_usd_per_mtok: %d, output_usd_per_mtok: %d, request_usd: %d}}}"
    return f"""
        backends:
          cheap: {{use: fake, text: {msgspec.json.encode(text).decode()}, {price % (1, 1, 1)}, {cheap}}}
          other: {{use: fake, text: {msgspec.json.encode(text).decode()}, {price % (2, 2, 2)}}}
          strong: {{use: fake, text: '{{"b":2}}', {price % (5, 5, 5)}}}
        routes:
          main:
            models: ["*"]
            cost: [money]
            cascade:
              - {{targets: [cheap], judge: {judge}, {step}}}
              - {{targets: [strong]}}
            {route}
    """


def _text(exchange: Any) -> str:
    return exchange.text if exchange.answer_headers["content-type"].startswith("text/event") else _whole(exchange)


def _whole(exchange: Any) -> str:
    return exchange.json["choices"][0]["message"]["content"]


both_ways = pytest.mark.parametrize("stream", [True, False])


@both_ways
async def test_an_answer_that_passes_is_the_cheap_ones(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool
) -> None:
    """The client gets it as it came, with the headers of who gave it, and nobody else was asked."""
    async with open_house(_policy(text=GOOD), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        headers = exchange.answer_headers
        assert (200, GOOD, "cheap", "1") == (
            exchange.status,
            _text(exchange),
            headers["x-headrace-backend"],
            headers["x-headrace-attempts"],
        )
        assert "x-headrace-escalated" not in headers
        assert not stream or exchange.events[-1] == "[DONE]"
        assert ["open", "write", "close"] == exchange.calls[1:] if stream else ["answer"] == exchange.calls[1:]
        assert 0 == house.backend("strong").open_calls
        (judged,) = house.judged
        assert (Occasion.CASCADE, 1, True, "", "cheap") == (
            judged.occasion,
            judged.attempt,
            judged.judgement.success,
            judged.escalated_for,
            judged.backend,
        )
        assert Status.OK is house.entry.outcome.status
        assert house.is_quiet()


@both_ways
async def test_an_answer_that_does_not_pass_is_seen_by_nobody(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool
) -> None:
    """The strong one answers; a header says why; one entry has both attempts, and costs what both do."""
    async with open_house(_policy(), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        headers = exchange.answer_headers
        assert (200, '{"b":2}', "strong", "2", "valid_json") == (
            exchange.status,
            _text(exchange),
            headers["x-headrace-backend"],
            headers["x-headrace-attempts"],
            headers["x-headrace-escalated"],
        )
        assert b"well" not in exchange.received
        cheap, strong = house.entry.attempts
        assert ("cheap", Status.OK, "strong", Status.OK) == (cheap.backend, cheap.status, strong.backend, strong.status)
        assert cheap.cost_usd + strong.cost_usd == house.entry.cost_usd
        assert Decimal(1) < cheap.cost_usd < Decimal(2)
        assert ["cheap", "strong"] == [bill.candidate.backend for bill in house.entry.decision.order]
        (judged,) = house.judged
        assert ("valid_json", False, "valid_json: no valid JSON") == (
            judged.escalated_for,
            judged.judgement.success,
            judged.judgement.reason,
        )
        assert cheap.cost_usd == judged.cost_usd
        assert (Status.OK, "stop") == (house.entry.outcome.status, house.entry.outcome.finish_reason)
        assert house.is_quiet()


@both_ways
@pytest.mark.parametrize("kind", ["refuse", "status", "error", "cut", "garbage", "empty", "reset"])
async def test_what_fails_goes_further_too(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, kind: str, failing: Any
) -> None:
    """Also in the middle of a stream, which the client has not seen; the entry has its price and its error."""
    async with open_house(_policy(failing(kind, after_chunks=1), text=GOOD), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        assert (200, '{"b":2}') == (exchange.status, _text(exchange))
        failed, served = house.entry.attempts
        assert failed.error == exchange.answer_headers["x-headrace-escalated"]
        assert ("strong", Status.OK) == (served.backend, house.entry.outcome.status)
        (judged,) = house.judged
        assert (None, failed.error) == (judged.judgement.success, judged.escalated_for)
        assert house.is_quiet()


@both_ways
async def test_a_step_that_takes_too_long_goes_further(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, failing: Any
) -> None:
    """Its own time limit ends it, and the next step has the rest of the request's time."""
    async with open_house(_policy(failing("hang"), "timeout_s: 0.01"), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        assert (200, '{"b":2}', "UpstreamTimeout") == (
            exchange.status,
            _text(exchange),
            exchange.answer_headers["x-headrace-escalated"],
        )


@both_ways
async def test_the_steps_share_the_requests_time(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, failing: Any
) -> None:
    """A step without a limit of its own has an even share, so that the next one has some left."""
    policy = _policy(failing("hang"), route="timeouts: {first_token_s: 9, total_s: 0.1}")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        assert (200, '{"b":2}') == (exchange.status, _text(exchange))


async def test_where_the_time_is_over_no_step_follows(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """The client is told so in time."""
    policy = _policy(failing("hang"), "timeout_s: 9", "timeouts: {total_s: 0.02}")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert (504, 0) == (exchange.status, house.backend("strong").open_calls)


async def test_a_refusal_of_the_cheap_one_says_nothing_of_the_strong_one(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """A request that one model refuses may be fine for another."""
    async with open_house(_policy(failing("status", status=422)), clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert (200, "UpstreamRefused") == (exchange.status, exchange.answer_headers["x-headrace-escalated"])


async def test_the_last_steps_failure_is_the_requests(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """With the header that tells of the step before."""
    policy = _policy().replace("strong: {use: fake,", f"strong: {{use: fake, {failing('status')},")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert (502, "valid_json", "2") == (
            exchange.status,
            exchange.answer_headers["x-headrace-escalated"],
            exchange.answer_headers["x-headrace-attempts"],
        )
        assert Status.UPSTREAM_FAILED is house.entry.outcome.status


@both_ways
async def test_one_bad_choice_of_several_is_enough(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool
) -> None:
    """`n` answers are as good as the worst of them; those that pass go out together."""
    for text, backend in ((GOOD, "cheap"), (BAD, "strong")):
        async with open_house(_policy(text=text), clock=clock) as house:
            exchange = await house.serve(make_exchange(stream=stream, n=3))
            assert backend == exchange.answer_headers["x-headrace-backend"]
            events = [event for event in exchange.events if event != "[DONE]"] if stream else [exchange.json]
            assert {0, 1, 2} == {choice["index"] for event in events for choice in event["choices"]}


@both_ways
@pytest.mark.parametrize(("when", "backend"), [("escalate", "strong"), ("serve", "cheap")])
async def test_where_nobody_can_say_the_step_says_what_to_do(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, when: str, backend: str
) -> None:
    """An answer for which the judge has no measure goes further, unless the file serves it."""
    policy = _policy(step=f"when_unsure: {when}", judge="[json_schema]")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        assert backend == exchange.answer_headers["x-headrace-backend"]
        assert ("json_schema unsure" if when == "escalate" else None) == exchange.answer_headers.get(
            "x-headrace-escalated"
        )


@both_ways
@pytest.mark.parametrize(("when", "backend"), [("escalate", "strong"), ("serve", "cheap")])
async def test_an_answer_that_is_longer_than_may_be_held_is_not_held(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, when: str, backend: str
) -> None:
    """It goes on to the client whole, or the step ends there and the next one answers: memory is bounded either way."""
    policy = _policy("tokens: 500", f"when_unsure: {when}, max_held_bytes: 1500")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        assert backend == exchange.answer_headers["x-headrace-backend"]
        if when == "serve":
            assert 500 == len(_text(exchange).split())
            assert [] == house.judged
        else:
            assert ('{"b":2}', "TooLongToHold") == (_text(exchange), exchange.answer_headers["x-headrace-escalated"])
            assert (
                0.0
                == house.fleet.snapshot(house.world.routes[0], house.entry.decision.ctx, house.world.backends)[
                    0
                ].failure_rate
            )
        assert house.is_quiet()


async def test_each_step_that_is_to_come_keeps_an_attempt(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """Of the route's attempts: a step with many targets does not use up those of the others."""
    policy = _policy(failing("status"), route="attempts: 2").replace("targets: [cheap]", "targets: [cheap, other]")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert ["cheap", "strong"] == [attempt.backend for attempt in house.entry.attempts]
        assert 200 == exchange.status


async def test_within_a_step_the_next_target_takes_over(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """Also when the first broke off in the middle of what is held."""
    policy = _policy(failing("cut", after_chunks=1), text=GOOD).replace("targets: [cheap]", "targets: [cheap, other]")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert (GOOD, "other") == (exchange.text, exchange.answer_headers["x-headrace-backend"])
        assert 1 == exchange.received.count(b'"role":"assistant","content":""')


@both_ways
async def test_a_hang_up_while_the_answer_is_held_ends_it(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, failing: Any
) -> None:
    """The upstream is closed, no judge is heard and no step follows."""
    async with open_house(_policy(failing("stall", after_chunks=1)), clock=clock) as house:
        exchange = make_exchange(stream=stream)
        task = house.begin(exchange)
        await house.until(lambda: house.backend("cheap").open_calls == 1)
        exchange.hang_up()
        await task
        assert (["body"], 1, 0) == (
            exchange.calls,
            house.backend("cheap").closed_calls,
            house.backend("strong").open_calls,
        )
        assert Status.CLIENT_GONE is house.entry.outcome.status
        assert house.is_quiet()


async def test_a_held_stream_is_kept_alive_by_comments(
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any
) -> None:
    """They are no events; the headers say that the answer is held; the strong one's answer follows them."""
    policy = _policy("first_token_s: 12", "keep_alive_s: 5")
    async with open_house(policy, clock=hand_clock) as house:
        exchange = make_exchange(stream=True)
        task = house.begin(exchange)
        for number in range(2):
            await house.until(lambda number=number: hand_clock.slept_s.count(5) == number + 1)
            hand_clock.advance(5)
            await house.until(lambda number=number: exchange.received.count(b": held") == number + 1)
        hand_clock.advance(2)
        await task
        assert ("held", 200) == (exchange.answer_headers["x-headrace-cascade"], exchange.status)
        comment = b": held until it is judged\n\n"
        assert exchange.received.startswith(comment * 2 + b"data: {")
        exchange.received = exchange.received[2 * len(comment) :]
        assert ('{"b":2}', "[DONE]") == (exchange.text, exchange.events[-1])
        assert house.is_quiet()


async def test_a_held_stream_of_ollamas_is_kept_alive_by_lines_that_say_nothing(
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any
) -> None:
    """Its clients know no comments, and take each line for JSON."""
    policy = _policy("first_token_s: 12", "keep_alive_s: 5")
    async with open_house(policy, clock=hand_clock) as house:
        exchange = make_exchange(operation=Operation.OLLAMA_CHAT, stream=True)
        task = house.begin(exchange)
        await house.until(lambda: hand_clock.slept_s.count(5) == 1)
        hand_clock.advance(5)
        await house.until(lambda: exchange.received)
        hand_clock.advance(12)
        await task
        kept, *lines = [msgspec.json.decode(line) for line in exchange.received.splitlines()]
        assert ("", False, True) == (kept["message"]["content"], kept["done"], lines[-1]["done"])
        assert "application/x-ndjson" == exchange.answer_headers["content-type"]


async def test_a_stream_that_is_kept_alive_and_fails_ends_with_an_error(
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any, failing: Any
) -> None:
    """As its last event: the status line is out."""
    policy = _policy("first_token_s: 7", "keep_alive_s: 5")
    policy = policy.replace("strong: {use: fake,", f"strong: {{use: fake, {failing('status')},")
    async with open_house(policy, clock=hand_clock) as house:
        exchange = make_exchange(stream=True)
        task = house.begin(exchange)
        await house.until(lambda: hand_clock.slept_s.count(5) == 1)
        hand_clock.advance(5)
        await exchange.wrote.wait()
        hand_clock.advance(2)
        await task
        assert b'"type":"upstream_error"' in exchange.received.split(b"\n\n")[-2]
        assert (Status.TRUNCATED, 200) == (house.entry.outcome.status, house.entry.outcome.http_status)


async def test_what_cannot_be_judged_is_served_by_the_first_that_can(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """An embedding has nothing to judge: the steps' targets are tried one after the other."""
    async with open_house(_policy(), clock=clock) as house:
        exchange = await house.serve(make_exchange(operation=Operation.EMBEDDING, body=b'{"model":"m","input":"x"}'))
        assert (200, "cheap") == (exchange.status, exchange.answer_headers["x-headrace-backend"])
        assert [] == house.judged


async def test_completions_cascade_as_chats_do(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """Their text is judged."""
    for text, backend in ((GOOD, "cheap"), (BAD, "strong")):
        async with open_house(_policy(text=text), clock=clock) as house:
            exchange = await house.serve(make_exchange(operation=Operation.COMPLETION))
            assert backend == exchange.answer_headers["x-headrace-backend"]


async def test_three_steps_go_one_by_one(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """The header names what let each of them fall."""
    policy = _policy(judge="[valid_json, finish_reason]").replace(
        "- {targets: [strong]}",
        "- {targets: [other], judge: [{use: non_empty, least_characters: 99}]}\n              - {targets: [strong]}",
    )
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert ("strong", "valid_json, non_empty", "3") == (
            exchange.answer_headers["x-headrace-backend"],
            exchange.answer_headers["x-headrace-escalated"],
            exchange.answer_headers["x-headrace-attempts"],
        )
        assert ["cheap", "other"] == [judged.backend for judged in house.judged]


async def test_a_judge_that_breaks_cannot_say(
    open_house: OpenHouse, make_exchange: Any, clock: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Somebody's own judge that raises, or exits, costs nobody an answer."""
    (tmp_path / "acme_checks.py").write_text(
        "from dataclasses import dataclass\n\n"
        "@dataclass(frozen=True)\nclass Raises:\n    def judge(self, request, answer):\n        raise SystemExit('x')\n"
        "@dataclass(frozen=True)\nclass Odd:\n    def judge(self, request, answer):\n        return True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, words in (("Raises", "it raised SystemExit"), ("Odd", "it answers with a bool")):
        async with open_house(_policy(judge=f"['acme_checks:{name}']"), clock=clock) as house:
            exchange = await house.serve(make_exchange())
            assert f"acme_checks:{name} unsure" == exchange.answer_headers["x-headrace-escalated"]
            assert f"acme_checks:{name}: {words}" == house.judged[0].judgement.reason


async def test_a_held_answers_first_token_is_when_the_client_could_see_it(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Not when the upstream sent it."""
    policy = _policy("seconds_per_token: 2", text="one two three", judge="[non_empty]")
    async with open_house(policy, clock=clock) as house:
        await house.serve(make_exchange(stream=True))
        outcome, (attempt,) = house.entry.outcome, house.entry.attempts
        assert attempt.first_token_s < outcome.shown_s == clock.now
        ttft_s = dict(zip(REQUEST_COLUMNS, rows_of(house.entry).request, strict=False))["ttft_s"]
        assert outcome.shown_s - house.entry.arrival.received_s == ttft_s


async def test_an_answer_that_was_not_held_is_counted_as_ever(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The last step's goes out as it comes."""
    async with open_house(_policy(), clock=clock) as house:
        await house.serve(make_exchange(stream=True))
        assert house.entry.outcome.shown_s is None


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("operation", "body"),
    [
        (Operation.MESSAGES, {"max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}),
        (Operation.RESPONSE, {"input": "Hi"}),
    ],
)
async def test_clients_of_other_formats_cascade_as_chats_do(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, operation: Operation, body: Any
) -> None:
    """What they were answered is read in their own format."""
    for text, backend in ((GOOD, "cheap"), (BAD, "strong")):
        async with open_house(_policy(text=text), clock=clock) as house:
            asked = msgspec.json.encode({"model": "any", "stream": stream, **body})
            exchange = await house.serve(make_exchange(operation=operation, body=asked))
            assert (200, backend) == (exchange.status, exchange.answer_headers["x-headrace-backend"])
            assert b"well" not in exchange.received
            assert [backend == "cheap"] == [judged.judgement.success for judged in house.judged]
