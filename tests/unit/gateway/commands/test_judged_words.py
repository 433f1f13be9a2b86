from collections.abc import Callable

from gateway.commands.judged_words import judging_lines, verdict_lines
from gateway.rules.world import World
from gateway.stores.kept_verdicts import KeptVerdict

POLICY = """
backends: {a: {use: fake, models: [small]}, b: {use: fake, models: [large]}, c: {use: fake, models: [m]}}
routes:
  main:
    models: ["*"]
    cascade:
      - {targets: [a/small], judge: {any: [valid_json, non_empty]}}
      - {targets: [b]}
    judge: {all: [finish_reason], sample: 0.25}
    shadow: {to: c/m, share: 0.1, usd: 2, judge: [valid_json]}
"""


def test_a_route_says_who_judges_what_and_when(make_world: Callable[..., World]) -> None:
    """Its steps, its judges, its shadow and what that may cost."""
    assert [
        "step 1     a/small: held until any of `valid_json`, `non_empty` pass it",
        "step 2     b: goes out as it comes",
        "judged     after it was served: `finish_reason` passes it, 0.25 of all",
        "shadow     0.1 of all to c/m too, `valid_json` passes it; the limit of shadow `main` is $2.0000 per day",
    ] == judging_lines(make_world(POLICY).routes[0])


def test_a_route_without_judges_says_nothing(make_world: Callable[..., World]) -> None:
    """Nothing is explained that is not there."""
    text = "backends: {a: {use: fake, models: [small]}}\nroutes: {r: {models: ['*'], targets: [a]}}"
    assert [] == judging_lines(make_world(text).routes[0])


def test_verdicts_are_told_judge_by_judge() -> None:
    """With the attempt that was judged, and why the next one was asked."""
    failed = KeptVerdict(
        occasion="cascade",
        attempt=1,
        backend="a",
        model="small",
        success=False,
        score=0.0,
        reason="valid_json: no valid JSON",
        escalated_for="valid_json",
        judges=(("valid_json", False, "no valid JSON"), ("non_empty", True, "")),
    )
    shadow = KeptVerdict(
        occasion="shadow",
        attempt=0,
        backend="c",
        model="m",
        success=None,
        score=None,
        reason="",
        escalated_for="",
    )
    assert [
        "cascade    a/small (attempt 1): failed, score 0; went further for valid_json",
        "           valid_json: failed (no valid JSON)",
        "           non_empty: passed",
        "shadow     c/m (no attempt of its own): cannot say",
    ] == verdict_lines([failed, shadow])
