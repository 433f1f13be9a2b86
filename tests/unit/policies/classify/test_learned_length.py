"""What learned_length forecasts, how fast it follows, and what it does not let others spoil or see."""

import contextlib
import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.conversation import FunctionCall, Message, Part, ToolCall
from gateway.forecast import Forecast
from gateway.price import Usage
from gateway.stores.memory import MemoryShared
from gateway.types import Operation, Status
from policies.classify.learned_length import LearnedLength, _key

Make = Callable[..., Any]

SHORT = "Say in one word whether it rains in {}."
LONG = "Write a detailed article about the rain in {}."

texts = st.text(max_size=400)
parts = st.lists(st.builds(Part, type=st.just("text"), text=st.none() | texts), max_size=2).map(tuple)
calls = st.builds(ToolCall, id=texts, function=st.none() | st.builds(FunctionCall, name=texts, arguments=texts))
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool", "elder"]),
    content=st.none() | texts | parts,
    tool_calls=st.none() | st.lists(calls, max_size=2).map(tuple),
)
prompts = (
    st.none() | texts | st.lists(texts, max_size=3).map(tuple) | st.lists(st.integers(0, 9), max_size=3).map(tuple)
)


@pytest.fixture
def answered(make_request: Make, make_entry: Make) -> Callable[..., Forecast]:
    """Forecasts a request, lets its answer be seen, and gives the forecast; each is another one, a second later."""
    count = iter(range(1_000_000))

    def answer(policy: LearnedLength, tokens: int, text: str = SHORT, *, ended: Any = None, **fields: Any) -> Forecast:
        number = next(count)
        request = make_request(text.format(number), request_id=f"req-{number}", **fields)
        forecast = policy.forecast(request)
        entry = make_entry(request, output_tokens=tokens, **(ended or {}))
        policy.observe(replace(entry, ended_s=float(number)))
        return forecast

    return answer


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  # a sample, not a secret


def _lengths(chance: random.Random, median: float) -> Iterator[int]:
    """Answers around a median, one in ten more than twice as long."""
    while True:
        yield max(round(chance.lognormvariate(0, 0.6) * median), 1)


# ---- what is forecast -----------------------------------------------------------------------------------------------


@given(turns=st.lists(messages, max_size=6), prompt=prompts, n=st.integers(1, 4), cap=st.none() | st.integers(0, 9000))
def test_whatever_the_client_writes_there_is_a_forecast_in_order_and_within_its_limit(
    make_request: Make, make_entry: Make, turns: list[Message], prompt: Any, n: int, cap: int | None
) -> None:
    """Before and after an answer to it was seen."""
    policy = LearnedLength()
    asked = make_request(messages=tuple(turns), prompt=prompt, n=n, max_tokens=cap)
    for _ in range(2):
        forecast = policy.forecast(asked)
        assert 0 <= forecast.output_tokens_p50 <= forecast.output_tokens_p80 <= forecast.output_tokens_p90
        assert cap is None or forecast.output_tokens_p90 <= cap * forecast.choices
        policy.observe(make_entry(asked, output_tokens=50))


@given(low=st.integers(0, 2000), more=st.integers(0, 2000), text=texts)
def test_a_higher_limit_never_makes_the_forecast_shorter(make_request: Make, low: int, more: int, text: str) -> None:
    """The limit is a feature too, but what it says of an application cannot outweigh the cap itself."""
    policy = LearnedLength()
    tight = policy.forecast(make_request(text, max_tokens=low))
    loose = policy.forecast(make_request(text, max_tokens=low + more))
    assert tight.output_tokens_p50 <= loose.output_tokens_p50
    assert tight.output_tokens_p90 <= loose.output_tokens_p90


def test_what_ships_knows_long_tasks_from_short_ones(make_request: Make) -> None:
    """And that a conversation goes on as it went so far."""
    policy = LearnedLength()
    essay, word = (policy.forecast(make_request(text.format("Rome"))) for text in (LONG, SHORT))
    assert word.output_tokens_p50 < essay.output_tokens_p50
    curt = policy.forecast(make_request("and then?", "yes. " * 4, "and now?"))
    wordy = policy.forecast(make_request("and then?", "yes. " * 600, "and now?"))
    assert curt.output_tokens_p50 * 2 < wordy.output_tokens_p50


def test_each_choice_is_an_answer(make_request: Make) -> None:
    """Three choices for each of two prompts weigh six times one; the class is that of one."""
    policy = LearnedLength()
    one = policy.forecast(make_request(prompt="Once", prompt_bytes=4))
    six = policy.forecast(make_request(prompt=("Once", "Twice"), prompt_bytes=9, n=3))
    assert 6 * one.output_tokens_p50 == six.output_tokens_p50
    assert (6, one.length_class) == (six.choices, six.length_class)


def test_a_request_that_comes_again_is_learned_from(answered: Make, make_request: Make) -> None:
    """What was learned in between counts; other settings make it another request."""
    policy = LearnedLength()
    first = answered(policy, 1200, "the same")
    for _ in range(20):
        latest = answered(policy, 1200, "the same")
    assert first.output_tokens_p50 < 600 < latest.output_tokens_p50
    assert latest != policy.forecast(make_request("the same", max_tokens=50))


def test_an_image_is_no_hindrance(make_request: Make, make_entry: Make) -> None:
    """Its field is whatever the client wrote."""
    policy = LearnedLength()
    picture = Part(type="image_url", image_url={"url": ["data:"]})
    seen = make_request(messages=(Message(role="user", content=(picture,)),))
    assert policy.forecast(seen).prompt_tokens > 700
    policy.observe(make_entry(seen, output_tokens=50))


def test_an_embedding_writes_nothing(answered: Make) -> None:
    """It is read only; and teaches nothing of answers."""
    policy = LearnedLength()
    fields = {"messages": (), "prompt": "hello", "prompt_bytes": 5, "operation": Operation.EMBEDDING}
    forecast = answered(policy, 9, **fields)
    assert (2, 0, 0) == (forecast.prompt_tokens, forecast.output_tokens_p50, forecast.output_tokens_p90)
    assert {} == policy._lengths.tenants


def test_prompt_tokens_follow_what_the_model_counts(make_request: Make, answered: Make) -> None:
    """A model with a small vocabulary reads the same bytes as more tokens; an absurd count moves little."""
    policy = LearnedLength()
    before = policy.forecast(make_request("x" * 4000)).prompt_tokens
    for _ in range(60):
        answered(policy, 10, "x" * 4000, ended={"usage": Usage(prompt_tokens=2000, output_tokens=10)})
    assert 1004 == before
    assert 1900 < policy.forecast(make_request("x" * 4000)).prompt_tokens < 2010
    answered(policy, 10, "x" * 4000, ended={"usage": Usage(prompt_tokens=10**9, output_tokens=10)})
    assert policy.forecast(make_request("x" * 4000)).prompt_tokens < 2200


# ---- learning -------------------------------------------------------------------------------------------------------


def test_fifty_answers_of_an_unseen_model_beat_its_running_median(answered: Make) -> None:
    """By a tenth or more, where tasks differ in length: whatever the model's own scale."""
    for scale in (0.3, 1.0, 3.0):
        policy, chance = LearnedLength(), _chance(4)
        ours, medians, seen = [], [], [100]
        for place in range(300):
            text, median = (SHORT, 20) if chance.random() < 0.5 else (LONG, 400)
            tokens = next(_lengths(chance, median * scale))
            forecast = answered(policy, tokens, text, model="never seen")
            if place >= 50:
                ours.append(abs(forecast.output_tokens_p50 - tokens))
                medians.append(abs(statistics.median(seen) - tokens))
            seen.append(tokens)
        assert sum(ours) < 0.9 * sum(medians)


def test_nine_in_ten_answers_stay_within_the_forecast(answered: Make) -> None:
    """Coverage of 2,000 answers after the first 100; five standard deviations leave one false alarm in 1.7 million."""
    policy, chance = LearnedLength(), _chance(11)
    within = 0
    for place in range(2100):
        text, median = (SHORT, 30) if chance.random() < 0.5 else (LONG, 500)
        tokens = next(_lengths(chance, median))
        within += tokens <= answered(policy, tokens, text).output_tokens_p90 and place >= 100
    assert 0.9 - 5 * (0.09 / 2000) ** 0.5 < within / 2000 < 0.9 + 5 * (0.09 / 2000) ** 0.5


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_model_that_is_replaced_behind_its_name_is_followed(answered: Make, factor: float) -> None:
    """After 500 answers all are twice, or half, as long: 200 answers later the next 400 are covered again."""
    policy, lengths = LearnedLength(), _lengths(_chance(5), 300)
    for _ in range(500):
        answered(policy, next(lengths))
    for _ in range(200):
        answered(policy, round(next(lengths) * factor))
    after = [round(next(lengths) * factor) for _ in range(400)]
    covered = sum(tokens <= answered(policy, tokens).output_tokens_p90 for tokens in after) / len(after)
    assert 0.85 <= covered <= 0.95


def test_answers_cut_short_count_as_at_least_that_long(answered: Make, make_request: Make) -> None:
    """Half of them end at a limit of 100 tokens; without it, the model writes 100 to 300: the median of nine worlds."""
    found = []
    for seed in range(9):
        policy, chance = LearnedLength(), _chance(seed)
        for _ in range(400):
            tokens = chance.randint(1, 300)
            if chance.random() < 0.5:
                cut = {"finish_reason": "length" if tokens > 100 else "stop"}
                answered(policy, min(tokens, 100), max_tokens=100, ended=cut)
            else:
                answered(policy, tokens)
        found.append(policy.forecast(make_request(SHORT)))
    assert 110 < statistics.median(forecast.output_tokens_p50 for forecast in found) < 190
    assert 220 < statistics.median(forecast.output_tokens_p90 for forecast in found) < 330


def test_a_conversation_that_runs_longer_than_forecast_is_expected_to_go_on_so(
    make_request: Make, make_entry: Make
) -> None:
    """Against another one of the same shape, once the model was seen to keep to its ways."""
    policy, chance = LearnedLength(), _chance(2)
    turns = ("tell me more", "x" * 400, "tell me more")
    for number in range(300):
        wordy = number % 2 == 0
        opening = f"{number} begins"
        for turn, words in enumerate(((opening,), (opening, "x" * 400, "tell me more"), (opening, "x" * 400, *turns))):
            request = make_request(*words, request_id=f"{number}/{turn}")
            policy.forecast(request)
            entry = make_entry(request, output_tokens=chance.randint(350, 450) if wordy else chance.randint(80, 120))
            policy.observe(replace(entry, ended_s=float(number)))
    found = []
    for tokens in (400, 100):
        opening = f"{tokens} new"
        first = make_request(opening, request_id=f"first {tokens}")
        policy.forecast(first)
        policy.observe(replace(make_entry(first, output_tokens=tokens), ended_s=1000.0))
        found.append(policy.forecast(make_request(opening, "x" * 400, "tell me more")).output_tokens_p50)
    assert found[0] > 1.3 * found[1]


@pytest.mark.parametrize(
    "ended",
    [
        {"status": Status.TRUNCATED},
        {"usage": Usage(output_tokens=9000, estimated=True)},
        {"usage": Usage(output_tokens=0)},
        {"usage": Usage(output_tokens=-5)},
        {"usage": Usage(output_tokens=10**12)},
    ],
    ids=["truncated", "estimated", "none", "negative", "absurd"],
)
def test_what_was_not_seen_to_its_end_or_cannot_be_teaches_nothing(
    answered: Make, make_request: Make, ended: dict[str, Any]
) -> None:
    """Fifty such answers change no forecast."""
    policy = LearnedLength()
    before = policy.forecast(make_request(SHORT))
    for _ in range(50):
        answered(policy, 9000, ended=ended)
    assert before == policy.forecast(make_request(SHORT))


def test_of_a_hedged_request_the_answer_that_was_given_teaches(make_entry: Make, make_request: Make) -> None:
    """The loser was cut off, and may stand last."""
    policy = LearnedLength()
    whole = make_entry(output_tokens=1500)
    loser = replace(whole.attempts[0], status=Status.CLIENT_GONE, usage=Usage(output_tokens=3))
    for _ in range(30):
        policy.observe(replace(whole, attempts=(*whole.attempts, loser)))
    assert policy.forecast(make_request("hello")).output_tokens_p50 > 800


def test_an_entry_without_a_request_or_an_attempt_is_no_answer(make_entry: Make) -> None:
    """It was refused before it could be understood."""
    policy = LearnedLength()
    policy.observe(replace(make_entry(), request=None))
    policy.observe(replace(make_entry(), attempts=()))
    assert 1 == len(list(policy.learned()))


# ---- what others do not feel ----------------------------------------------------------------------------------------


def test_a_backend_that_miscounts_spoils_no_other_model_and_recovers(answered: Make, make_request: Make) -> None:
    """Random counts up to 100,000 for one model: the other's forecast stays, to the token."""
    policy, chance = LearnedLength(), _chance(8)
    for _ in range(100):
        answered(policy, chance.randint(90, 110), model="honest")
    before = policy.forecast(make_request(SHORT, model="honest"))
    for _ in range(200):
        answered(
            policy,
            chance.randint(1, 100),
            model="lying",
            ended={"usage": Usage(output_tokens=chance.randint(1, 99_000))},
        )
    assert before == policy.forecast(make_request(SHORT, model="honest"))
    for _ in range(100):
        answered(policy, chance.randint(90, 110), model="lying")
    assert 50 < policy.forecast(make_request(SHORT, model="lying")).output_tokens_p50 < 200


def test_one_odd_answer_among_many_moves_the_forecast_little(answered: Make, make_request: Make) -> None:
    """However odd: of a residual no more than a factor is believed."""
    policy = LearnedLength()
    for _ in range(100):
        answered(policy, 100)
    before = policy.forecast(make_request(SHORT))
    answered(policy, 100, ended={"usage": Usage(output_tokens=90_000)})
    after = policy.forecast(make_request(SHORT))
    assert abs(after.output_tokens_p50 - before.output_tokens_p50) < 30


def test_no_tenant_feels_the_words_of_another(answered: Make, make_request: Make) -> None:
    """After a tenant's thousand answers, two prompts of other words still differ for another by what ships alone."""

    def apart(policy: LearnedLength) -> float:
        found = [policy.forecast(make_request(text, tenant="other")) for text in ("zebra zebra", "quince quince")]
        return found[0].output_tokens_p50 / found[1].output_tokens_p50

    policy = LearnedLength()
    for _ in range(200):
        answered(policy, 30, "zebra zebra", tenant="acme")
        answered(policy, 900, "quince quince", tenant="acme")
    own = policy.forecast(make_request("zebra zebra", tenant="acme"))
    assert own.output_tokens_p50 < 100
    assert apart(LearnedLength()) == pytest.approx(apart(policy), rel=0.02)


def test_a_new_tenant_begins_with_how_the_model_answers_others(answered: Make, make_request: Make) -> None:
    """Its scale is no secret, and spares everybody the first answers."""
    policy = LearnedLength()
    for _ in range(50):
        answered(policy, 1500, tenant="acme")
    assert policy.forecast(make_request(SHORT, tenant="other")).output_tokens_p50 > 800
    assert policy.forecast(make_request(SHORT, tenant="other", model="else")).output_tokens_p50 < 500


def test_memory_is_bounded_in_tenants_and_models(answered: Make) -> None:
    """However many names clients make up: the latest stay."""
    policy = LearnedLength(memory_mb=1)
    for number in range(700):
        answered(policy, 10, model=f"m{number}", tenant=f"t{number % 300}")
    for number in range(200):
        answered(policy, 10, model=f"m{number}", tenant="busy")
    lengths = policy._lengths
    assert len(lengths.tenants["busy"]) <= 64
    assert "m199" in lengths.tenants["busy"]
    assert len(lengths.tenants) <= 256
    assert sum(model.weights.slots * 8 for models in lengths.tenants.values() for model in models.values()) <= 1024**2


def test_nothing_is_kept_for_a_request_under_way(answered: Make, make_request: Make) -> None:
    """Whoever forecasts and never hears how it ended holds no more than before."""
    policy = LearnedLength()
    answered(policy, 10)

    def held() -> dict[str, int]:
        return {name: len(value) for name, value in vars(policy._lengths).items() if hasattr(value, "__len__")}

    before = held()
    for number in range(20):
        policy.forecast(make_request(f"never answered {number}", request_id=f"lost-{number}"))
    assert {"tenants", "pools", "_drifts"} <= before.keys()
    assert before == held()


def test_a_prompt_of_a_megabyte_is_looked_at_by_its_ends(make_request: Make) -> None:
    """What stands between them changes nothing but the length."""
    policy = LearnedLength()
    one, other = (policy.forecast(make_request("Summarize. " + letter * 1_000_000 + " Thanks!")) for letter in "ab")
    assert one.output_tokens_p50 == pytest.approx(other.output_tokens_p50, rel=0.01)
    assert policy._lengths.expect(make_request("word " * 200_000), None).features.count < 250


# ---- over restarts, and between replicas ----------------------------------------------------------------------------


def test_what_was_learned_survives_a_restart(answered: Make, make_request: Make) -> None:
    """The same request, the same forecast; and no word of a prompt stands in the records."""
    policy, fresh = LearnedLength(), LearnedLength()
    for _ in range(80):
        answered(policy, 30, "zebra {}")
        answered(policy, 900, "quince {}", max_tokens=1000, ended={"finish_reason": "length"})
    records = [record for _, record in policy.learned()]
    for record in records:
        fresh.resume(record)
    asked = make_request("zebra quince")
    assert policy.forecast(asked) == fresh.forecast(asked)
    assert fresh.forecast(asked) != LearnedLength().forecast(asked)
    assert not any(word in record for record in records for word in (b"zebra", b"quince"))


@given(cut=st.integers(0, 400), flip=st.integers(0, 3000), bits=st.integers(1, 255))
def test_a_record_that_is_none_is_refused_and_forecasts_stay_sane(
    make_request: Make, make_entry: Make, cut: int, flip: int, bits: int
) -> None:
    """Cut off, or with a byte of it changed."""
    policy = LearnedLength()
    policy.observe(make_entry(output_tokens=700))
    for _, whole in policy.learned():
        broken = bytearray(whole[: len(whole) - cut])
        if flip < len(broken):
            broken[flip] ^= bits
        fresh = LearnedLength()
        with contextlib.suppress(ValueError):
            fresh.resume(bytes(broken))
        forecast = fresh.forecast(make_request("hello"))
        assert 0 <= forecast.output_tokens_p50 <= forecast.output_tokens_p90 <= 131_072


def test_what_an_earlier_release_has_learned_is_refused(answered: Make) -> None:
    """Its features had other numbers."""
    policy = LearnedLength()
    answered(policy, 30)
    for _, record in policy.learned():
        earlier = msgspec.msgpack.decode(record)
        earlier["release"] -= 1
        with pytest.raises(ValueError, match="a record of another release"):
            LearnedLength().resume(msgspec.msgpack.encode(earlier))


def test_a_replica_begins_with_what_another_has_seen(answered: Make, make_request: Make, hand_clock: Any) -> None:
    """Through the shared facts: of this tenant if it asked there, else of the model."""
    shared = MemoryShared(hand_clock)
    first, second = LearnedLength(), LearnedLength()
    first.share(shared)
    second.share(shared)
    for _ in range(40):
        answered(first, 2000, tenant="acme")
    assert second.forecast(make_request(SHORT, tenant="acme")).output_tokens_p50 > 1000
    assert second.forecast(make_request(SHORT, tenant="other")).output_tokens_p50 > 1000
    for _ in range(40):
        answered(second, 50, tenant="acme")
    assert second.forecast(make_request(SHORT, tenant="acme")).output_tokens_p50 < 80


def test_a_model_whose_only_answers_were_cut_short_tells_what_it_has(answered: Make, hand_clock: Any) -> None:
    """Nothing is known yet of how long its answers are for whoever asks, and that is no mistake."""
    policy = LearnedLength()
    shared = MemoryShared(hand_clock)
    policy.share(shared)
    answered(policy, 1, LONG, ended={"finish_reason": "length"}, max_tokens=1)
    assert 1 == len(shared)


@pytest.mark.parametrize("told", ["", "x", "1 2", "nan nan nan", "5 inf 1", "5 1e9 1", "5 0 -1", "-5 0 1", "5 0 1 2"])
def test_garbage_among_the_shared_facts_is_passed_over(make_request: Make, hand_clock: Any, told: str) -> None:
    """Whoever wrote it."""
    shared = MemoryShared(hand_clock)
    shared.put(_key("acme", "small"), told, 60)
    policy = LearnedLength()
    policy.share(shared)
    assert LearnedLength().forecast(make_request("hi")) == policy.forecast(make_request("hi"))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"bytes_per_token": 0}, "`bytes_per_token` must be positive, and is 0"),
        ({"bytes_per_token": float("inf")}, "`bytes_per_token` must be positive, and is inf"),
        ({"message_tokens": -1}, "`message_tokens` must not be negative, and is -1"),
        ({"image_tokens": -1}, "`image_tokens` must not be negative, and is -1"),
        ({"memory_mb": 0}, "`memory_mb` must be from 1 to 4096, and is 0"),
    ],
)
def test_parameters_have_bounds(parameters: dict[str, Any], words: str) -> None:
    """Named with the value that was given."""
    with pytest.raises(ValueError, match=words):
        LearnedLength(**parameters)
