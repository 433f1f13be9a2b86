import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.commands.explain import explain
from gateway.commands.offline import read_world

SHORT = {"model": "small", "messages": [{"role": "user", "content": "hi"}]}
LONG = {"model": "small", "messages": [{"role": "user", "content": "word " * 2000}]}


@pytest.fixture
def request_file(tmp_path: Path) -> Any:
    """Writes a request's body."""

    def write(fields: dict[str, Any] | str) -> Path:
        path = tmp_path / "request.json"
        path.write_text(fields if isinstance(fields, str) else json.dumps(fields))
        return path

    return write


def test_the_bills_are_shown_term_by_term_and_the_choice_at_the_end(
    run: Any, policy_file: Path, request_file: Any
) -> None:
    """The cheapest first, each term and its total, in US dollars."""
    code, out, err = run("explain", policy_file, request_file(SHORT))
    lines = out.splitlines()
    assert (0, "", "route      main", "choice     cheap/small") == (code, err, lines[0], lines[-1])
    assert ["1. cheap/small", "2. dear/small"] == [line for line in lines if line[:2] in {"1.", "2."}]
    assert 2 == sum(line.startswith("   money") for line in lines)
    assert 2 == sum(line.startswith("   decoding") for line in lines)
    assert 2 == sum(line.startswith("   total") for line in lines)
    assert "forecast" in lines[1]
    assert 2 == sum(line.startswith("   time         first token 0.") and "whole answer" in line for line in lines)


def test_json_says_what_the_decision_is(run: Any, policy_file: Path, request_file: Any) -> None:
    """The same bills, exclusions and choice that the decision has, for programs."""
    path = request_file(LONG)
    code, out, _ = run("explain", "--json", policy_file, path)
    told = json.loads(out)
    explanation = explain(read_world(policy_file)[1], path.read_bytes())
    times = [(one.pop("first_token_s"), one.pop("whole_answer_s")) for one in told["candidates"]]
    assert (0, "main", "dear", None) == (code, told["route"], told["choice"], told["refused"])
    assert [
        {
            "backend": bill.candidate.backend,
            "model": bill.candidate.model,
            "terms_usd": dict(bill.terms),
            "total_usd": bill.total_usd,
            "price_known": True,
        }
        for bill in explanation.decision.order
    ] == told["candidates"]
    (out_,) = explanation.decision.excluded
    assert [{"backend": "cheap", "model": "small", "filter": "fits_context", "reason": out_.reason}] == told["excluded"]
    assert explanation.forecast.prompt_tokens == told["forecast"]["prompt_tokens"]
    assert "long_in_" in told["forecast"]["kind"]
    assert all(first["p50"] <= first["p80"] <= first["p90"] and first["p90"] < whole["p90"] for first, whole in times)


def test_who_is_out_is_shown_with_the_reason(run: Any, policy_file: Path, request_file: Any) -> None:
    """The filter and its words, with the numbers."""
    _, out, _ = run("explain", policy_file, request_file(LONG))
    assert "x  cheap/small\n   fits_context: needs about" in out
    assert "choice     dear/small" in out


def test_a_request_that_nobody_can_serve_is_refused(run: Any, policy_file: Path, request_file: Any) -> None:
    """With the client's error and the exit code 1, in text and in JSON."""
    policy_file.write_text("backends: {a: {use: fake, models: {small: {context_tokens: 10}}}}")
    path = request_file(LONG)
    code, out, _ = run("explain", policy_file, path)
    assert (1, "refused    400 context_length_exceeded") == (code, out.splitlines()[-1])
    code, out, _ = run("explain", "--json", policy_file, path)
    told = json.loads(out)
    assert (1, None, "context_length_exceeded", []) == (code, told["choice"], told["refused"], told["candidates"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**SHORT, "model": "nonsense"}, "refused with 404 model_not_found"),
        ("{", "refused with 400 invalid_request"),
        ({"model": "small"}, "refused with 400 invalid_request: messages"),
    ],
)
def test_a_request_that_is_none_is_refused_before_anything_is_decided(
    run: Any, policy_file: Path, request_file: Any, body: Any, words: str
) -> None:
    """With what its client would be told."""
    code, out, err = run("explain", policy_file, request_file(body))
    assert (1, "") == (code, out)
    assert words in err


def test_completions_are_known_by_their_prompt(run: Any, policy_file: Path, request_file: Any) -> None:
    """No option says which endpoint the body is for: it says so itself."""
    code, out, _ = run("explain", policy_file, request_file({"model": "gpt-x", "prompt": "Once"}))
    assert (0, "choice     cheap/small") == (code, out.splitlines()[-1])


def test_the_request_may_come_from_standard_input(run: Any, policy_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``-``, which is the usual sign for it."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(msgspec.json.encode(SHORT))))
    assert 0 == run("explain", policy_file, "-")[0]


def test_a_request_file_that_is_not_there_is_named(run: Any, policy_file: Path, tmp_path: Path) -> None:
    """A mistake in the command, not in the gateway."""
    code, _, err = run("explain", policy_file, tmp_path / "none.json")
    assert (1, True) == (code, "none.json: cannot be read" in err)


def test_nothing_is_started_and_whoever_starts_later_counts_as_up(
    run: Any, policy_file: Path, request_file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that would need a key, a network or a model is explained without them."""

    async def forbidden(*_: object) -> None:
        raise AssertionError("a backend was started")

    for backend in ("fake.Fake", "openai_compatible.OpenAICompatible", "embedded.Embedded"):
        monkeypatch.setattr(f"backends.{backend}.start", forbidden)
    policy_file.write_text(
        "backends: {local: {use: embedded}, far: {use: openai_compatible, preset: groq, api_key_env: NO_SUCH_KEY}}\n"
        "routes: {r: {models: ['*'], targets: [local, far]}}"
    )
    code, out, _ = run("explain", "--json", policy_file, request_file(SHORT))
    assert (0, {"local", "far"}) == (code, {one["backend"] for one in json.loads(out)["candidates"]})


def test_a_price_that_nobody_knows_is_marked(run: Any, policy_file: Path, request_file: Any) -> None:
    """The money of who has no price is an assumption, and looks like one."""
    policy_file.write_text(
        "backends:\n"
        "  own: {use: openai_compatible, preset: vllm, models: [small]}\n"
        "  far: {use: openai_compatible, preset: groq, models: [small]}\n"
    )
    path = request_file(SHORT)
    _, out, _ = run("explain", policy_file, path)
    money = [line for line in out.splitlines() if line.startswith("   money")]
    assert "   money        $0.000000" == money[0]
    assert money[1].endswith(" (assumed: no price is known)")
    assert "choice     own/small" in out
    _, out, _ = run("explain", "--json", policy_file, path)
    assert {"own": True, "far": False} == {one["backend"]: one["price_known"] for one in json.loads(out)["candidates"]}


BROKEN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Broken:
    def usd(self, ctx, candidate):
        raise KeyError("two\\nlines")
"""


def test_a_plugin_that_raises_is_one_line(
    run: Any, policy_file: Path, request_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it said, and where, instead of our stack."""
    (tmp_path / "acme_raising.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    policy_file.write_text("backends: {a: {use: fake}}\ndefaults: {cost: ['acme_raising:Broken']}")
    code, out, err = run("explain", policy_file, request_file({**SHORT, "model": "fake"}))
    assert (1, "", 1) == (code, out, err.count("\n"))
    assert "KeyError" in err
    assert f"{tmp_path / 'acme_raising.py'}, line 7" in err


def test_a_draining_target_is_out(run: Any, tmp_path: Path, request_file: Any) -> None:
    """Backends that are not started are taken as up; what the file drains is not."""
    policy = tmp_path / "drain.yaml"
    route = "{models: ['*'], targets: [{to: a, drain: true}, b]}"
    policy.write_text(f"backends: {{a: {{use: fake}}, b: {{use: fake}}}}\nroutes: {{r: {route}}}")
    code, out, _ = run("explain", policy, request_file(SHORT))
    assert (0, "choice     b/fake") == (code, out.splitlines()[-1])
    assert "healthy: draining" in out


def test_cards_are_shown_and_what_is_required_of_them_decides(run: Any, tmp_path: Path, request_file: Any) -> None:
    """Who does not say enough is out with the reason; a warning tells so before anything is served."""
    path = tmp_path / "cards.yaml"
    card = "{precision: bf16, equivalence: measured, evidence: 200 answers compared}"
    path.write_text(
        f"""
        backends:
          exact: {{use: fake, models: [small], card: {card}}}
          quick: {{use: fake, models: [small], card: {{precision: fp8}}}}
        routes:
          main: {{models: [small], targets: [exact, quick], filter: [{{use: require, equivalence: measured}}]}}
        """
    )
    _, out, _ = run("explain", path, request_file(SHORT))
    assert "   card         precision bf16, equivalence measured" in out.splitlines()
    assert "   require: its equivalence is unknown, and measured is required" in out.splitlines()
    told = json.loads(run("explain", "--json", path, request_file(SHORT))[1])
    assert {"precision": "bf16", "equivalence": "measured"} == told["candidates"][0]["card"]
    warning = "warning: routes.main.targets: nothing goes to `quick/small`, for `require`: its equivalence is unknown"
    assert 1 == sum(line.startswith(warning) for line in run("check", path)[1].splitlines())


def test_whether_an_answer_would_be_kept_is_told(run: Any, policy_file: Path, request_file: Any) -> None:
    """For how long and for whom, or why not."""
    policy_file.write_text(policy_file.read_text().replace("models: [small", "cache: {ttl_s: 60}, models: [small"))
    told = run("explain", policy_file, request_file(SHORT))[1].splitlines()
    assert "cache      passed by: it is drawn at random: neither temperature 0 nor a seed" in told
    told = run("explain", policy_file, request_file({**SHORT, "temperature": 0}))[1].splitlines()
    assert "cache      an answer that ends well is kept for 60 s, for the same tenant" in told


def test_a_body_is_read_as_what_it_is(run: Any, policy_file: Path, request_file: Any) -> None:
    """Anthropic's fields make it a message's, whose limits and words are others; an option says it outright."""
    anthropic = {**SHORT, "system": "Be brief."}
    assert (1, True) == ((told := run("explain", policy_file, request_file(anthropic)))[0], "max_tokens" in told[2])
    assert 0 == run("explain", policy_file, request_file({**anthropic, "max_tokens": 5}))[0]
    assert 1 == run("explain", policy_file, request_file(SHORT), "--format", "messages")[0]
    assert 0 == run("explain", policy_file, request_file({**SHORT, "max_tokens": 5}), "--format", "messages")[0]


def test_what_is_passed_on_is_explained_too(run: Any, request_file: Any, tmp_path: Path) -> None:
    """By its format's name: two pictures at four cents, and no time to write them in."""
    policy = tmp_path / "media.yaml"
    policy.write_text("backends: {a: {use: fake, models: {m: {price: {image_usd: 0.04}}}}}")
    code, out, _ = run("explain", policy, request_file({"model": "m", "prompt": "a cat", "n": 2}), "--format", "image")
    assert (0, "money        $0.080000") == (code, next(line.strip() for line in out.splitlines() if "money" in line))
    assert "decoding     $0.000000" in out
