"""All mistakes of a policy file, told at once."""

from pathlib import Path
from typing import Any

MANY = """
backends:
  a: {use: fake, txet: hi, first_token_s: "3"}
  b: {use: openai_compatible, base_ur: "http://x/v1"}
  c: {use: fkae}
  d: {use: fake, models: [m, n]}
routes:
  one: {models: [m], targets: [a, nobody, d/x], cost: [mony, {use: prefill, mu: x}], rank: by_cots}
  two: {models: [n], targets: [b, gone], guards: [GUARD, {use: nope, when: before, on_error: allow}]}
  three: {models: [o], targets: [c], canary: {to: away}}
  four:
    models: [p]
    cascade: [{targets: [d/y, d/z], judge: {all: [nine, ten]}}, {targets: [d/m]}]
defaults: {admit: {use: fixed_concurrency, limt: 3}}
tenants:
  t: {keys_sha256: [KEY], routes: [five, six], team: t, limits: [LIMIT, LIMIT]}
  u: {keys_sha256: [KEY, KEY]}
limits: {backends: {none: [LIMIT]}, models: {"*": [LIMIT, LIMIT]}}
"""
MANY = MANY.replace("KEY", "ab" * 32).replace("LIMIT", "{requests: 3, per: day}")
MANY = MANY.replace("GUARD", "{use: pattern, when: before, on_error: refuse}")
PLACES = [
    *("backends.a.txet", "backends.a.first_token_s", "backends.b.base_ur", "backends.c"),
    *("routes.one.targets[1]", "routes.one.targets[2]", "defaults.admit.limt"),
    *("routes.one.cost[0]", "routes.one.cost[1].mu", "routes.one.rank"),
    *("routes.two.targets[1]", "routes.two.guards[0].patterns", "routes.two.guards[0].action", "routes.two.guards[1]"),
    *("routes.three.canary.to", "routes.four.cascade[0].targets[0]", "routes.four.cascade[0].targets[1]"),
    *("routes.four.cascade[0].judge.all[0]", "routes.four.cascade[0].judge.all[1]"),
    *("tenants.t.routes", "tenants.t.routes", "tenants.t.team", "tenants.t.limits[1]", "tenants.u.keys_sha256[1]"),
    *("limits.models.*[1]", "limits.backends.none"),
]


def _places(err: str, file: Path) -> list[str]:
    assert all(line.startswith(f"headrace: {file}: ") for line in err.splitlines())
    return [line.split(": ")[2] for line in err.splitlines()]


def test_all_mistakes_are_told_at_once(run: Any, policy_file: Path) -> None:
    """A line each, with its place; what only follows from another mistake is not told."""
    policy_file.write_text(MANY)
    code, out, err = run("check", policy_file)
    assert (1, "") == (code, out)
    assert PLACES == _places(err, policy_file)


def test_plugins_are_looked_at_where_the_file_is_out_of_shape_too(run: Any, policy_file: Path) -> None:
    """The shape of the whole file, keys that stand twice, and what is wrong with the backends and steps in it."""
    text = MANY.replace("models: [o]", "model: [o]").replace("defaults: {", "defaults: {attempts: 99, ")
    policy_file.write_text(text + "backends: {e: {use: fake, x: 1}}\ndefaults: {filter: [nope], cost: 3}\n")
    lines = (len(text.splitlines()) + 1, len(text.splitlines()) + 2)
    code, _, err = run("check", policy_file)
    assert 1 == code
    assert [
        *(f"line {line}" for line in lines),
        *("routes.three.model", "defaults.cost", "backends.e.x", "defaults.filter[0]"),
        *("routes.one.rank", "routes.one.cost[0]", "routes.one.cost[1].mu"),
    ] == _places(err, policy_file)


def test_all_files_that_backends_miss_are_told_at_once(run: Any, policy_file: Path, tmp_path: Path) -> None:
    """What the backends need is asked of each."""
    none = tmp_path / "none.gguf"
    policy_file.write_text("".join(["backends:\n", *(f"  {n}: {{use: embedded, model: {none}}}\n" for n in "ab")]))
    code, _, err = run("check", policy_file)
    assert (1, ["backends.a.model", "backends.b.model"]) == (code, _places(err, policy_file))
