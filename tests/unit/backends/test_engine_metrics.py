"""What was measured, by the names of vLLM and llama.cpp; log-probabilities in OpenAI's two formats."""

import pytest

from backends._engine_account import Account
from backends._engine_logprobs import chat_logprobs, completion_logprobs
from backends._engine_metrics import measurements
from embedded_engine.likelihoods import Likelihood, TokenLogprob
from embedded_engine.measured import Drafts, Measured
from embedded_engine.messages import Accepted, Done
from gateway.price import Usage

ONE = Measured(
    queue_s=0.1,
    prefill_s=0.4,
    decode_s=2.0,
    cached_tokens=30,
    drafts=(
        Drafts(source="repetition", drafts=3, drafted=12, accepted=9),
        Drafts(source="markov", drafts=1, drafted=4, accepted=0),
    ),
    accepted_prediction_tokens=5,
    rejected_prediction_tokens=2,
)
USAGE = Usage(prompt_tokens=50, output_tokens=21, cached_tokens=30)


def test_one_choice() -> None:
    """Times in milliseconds; the tokens of the prompt that were remembered were not computed."""
    told = measurements([ONE], USAGE)
    metrics, timings = told["metrics"], told["timings"]
    assert (500.0, 100.0, 100.0) == tuple(
        pytest.approx(metrics[name]) for name in ("time_to_first_token_ms", "queue_time_ms", "mean_itl_ms")
    )
    speculative = metrics["speculative_decoding"]
    assert (4, 16, 9) == tuple(speculative[f"num_{name}"] for name in ("drafts", "draft_tokens", "accepted_tokens"))
    assert 9 / 16 == speculative["draft_acceptance_rate"]
    assert {"num_drafts": 3, "num_draft_tokens": 12, "num_accepted_tokens": 9} == speculative["by_drafter"][
        "repetition"
    ]
    assert (30, 20, 50.0) == (timings["cache_n"], timings["prompt_n"], pytest.approx(timings["prompt_per_second"]))
    assert (21, 16, 9) == (timings["predicted_n"], timings["draft_n"], timings["draft_n_accepted"])


def test_nothing_measured_is_no_division_by_zero() -> None:
    """An answer without tokens, and one without drafts."""
    told = measurements([Measured()], Usage())
    assert 0.0 == told["metrics"]["mean_itl_ms"] == told["timings"]["predicted_per_second"]
    assert "draft_n" not in told["timings"]
    assert measurements([], Usage())


def test_an_account_adds_up() -> None:
    """Two prompts of two choices: what was cached of a prompt counts once, what was written counts each time."""
    account = Account(unfinished_choices=4)
    for prompt in range(2):
        account.accepted(Accepted(id=prompt, prompt_tokens=50))
        for choice in range(2):
            assert account.unfinished_choices
            account.done(
                Done(id=prompt, choice=choice, reason="stop", completion_tokens=7, reasoning_tokens=2, measured=ONE)
            )
    assert 0 == account.unfinished_choices
    assert Usage(prompt_tokens=100, output_tokens=28, cached_tokens=60, reasoning_tokens=8) == account.usage
    assert (20, 8) == account.prediction
    assert 8 == len(account.drafts)


A = Likelihood(5, "a", b"a", -0.5)
HALF = Likelihood(6, "\ufffd", b"\xf0", -1.0)
CONTROL = Likelihood(7, "<|end|>", None, -2.0)
FIRST = Likelihood(8, "The", b"The", None)


def test_a_chat_tells_each_token_and_its_bytes() -> None:
    """Of half a character too; a control token has none."""
    told = chat_logprobs([TokenLogprob(A, (A, CONTROL)), TokenLogprob(HALF)])
    first, second = told["content"]
    assert ("a", -0.5, [97]) == (first["token"], first["logprob"], first["bytes"])
    assert [("a", [97]), ("<|end|>", None)] == [(top["token"], top["bytes"]) for top in first["top_logprobs"]]
    assert ([240], []) == (second["bytes"], second["top_logprobs"])


def test_a_completion_tells_where_each_token_stands() -> None:
    """From where the last ones ended; of the first token of a text nothing is known."""
    told, offset = completion_logprobs([TokenLogprob(FIRST), TokenLogprob(A, (CONTROL,)), TokenLogprob(CONTROL)], 10)
    assert (["The", "a", "<|end|>"], [None, -0.5, -2.0], [10, 13, 14], 14) == (
        told["tokens"],
        told["token_logprobs"],
        told["text_offset"],
        offset,
    )
    assert [None, {"<|end|>": -2.0, "a": -0.5}, {"<|end|>": -2.0}] == told["top_logprobs"]
