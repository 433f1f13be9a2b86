"""Who may call, and which limits hold for whom."""

import hashlib
from datetime import datetime

import pytest

from gateway.errors import ConfigurationError, ModelNotFound
from gateway.limits.limit import NANO, Measure
from gateway.rules.policy_file import parse_policy
from gateway.rules.tenancy import Tenancy, build_tenancy

A, B, C = (hashlib.sha256(name).hexdigest() for name in (b"a", b"b", b"c"))
ROUTES = """
backends: {groq: {use: fake, models: [llama]}, local: {use: fake, models: [small]}}
routes:
  chat: {models: [llama], targets: [groq]}
  cheap: {models: ["*"], targets: [local]}
"""


def _tenancy(text: str) -> Tenancy:
    return build_tenancy(parse_policy(ROUTES + text, file="policy.yaml"))


def test_a_key_stands_for_its_tenant_its_team_and_all_their_limits() -> None:
    """The key's own limits, the tenant's and the team's hold at once, each under its own name."""
    tenancy = _tenancy(f"""
limits: {{time_zone: Asia/Tokyo, teams: {{research: [{{usd: 0.1, per: month}}]}}}}
tenants:
  acme:
    team: research
    priority: interactive
    weight: 2
    keys_sha256: [{A}]
    keys: {{ci: {{sha256: {B}, expires: 2027-01-01T00:00:00+09:00, limits: [{{concurrent: 2}}]}}}}
    limits: [{{requests: 60, per: minute}}, {{tokens: 1000000, per: day}}]
""")
    plain, ci = tenancy.keys[A], tenancy.keys[B]
    theirs = ["tenant:acme/requests/minute", "tenant:acme/tokens/day", "team:research/usd/month"]
    assert theirs == [limit.name for limit in plain.limits]
    assert ["key:acme/ci/concurrent/now", *theirs] == [limit.name for limit in ci.limits]
    assert ("acme", "ci", "research", "interactive", 2.0) == (
        ci.tenant,
        ci.key,
        ci.team,
        ci.precedence.priority,
        ci.precedence.weight,
    )
    assert datetime.fromisoformat("2027-01-01T00:00:00+09:00").timestamp() == ci.expires_unix_s
    assert (Measure.USD, NANO // 10, "Asia/Tokyo") == (
        plain.limits[2].measure,
        plain.limits[2].amount,
        str(plain.limits[2].zone),
    )


def test_models_and_backends_have_limits_of_their_own() -> None:
    """Those of a model go by the name that clients ask for, patterns included."""
    tenancy = _tenancy("""
limits:
  models: {"gpt-*": [{requests: 5, per: hour}], gpt-4o: [{output_tokens: 9, per: day}]}
  backends: {groq: [{requests: 30, per: minute}]}
""")
    assert ["model:gpt-*/requests/hour", "model:gpt-4o/output_tokens/day"] == [
        limit.name for limit in tenancy.of_model("gpt-4o")
    ]
    assert () == tenancy.of_model("llama")
    assert ["backend:groq/requests/minute"] == [limit.name for limit in tenancy.backends["groq"]]


@pytest.mark.parametrize("written", ["llama", "llama:latest", "ll*"])
@pytest.mark.parametrize("asked", ["llama", "llama:latest"])
def test_a_model_of_ollamas_has_two_names(written: str, asked: str) -> None:
    """Whichever is written and whichever is asked for: who may use it may, and its limits hold."""
    tenancy = _tenancy(f"""
limits: {{models: {{"{written}": [{{requests: 9, per: day}}]}}}}
tenants: {{acme: {{keys_sha256: [{A}], models: ["{written}"]}}}}
""")
    tenancy.keys[A].check(asked, "chat")
    assert [9] == [limit.amount for limit in tenancy.of_model(asked)]
    with pytest.raises(ModelNotFound):
        tenancy.keys[A].check("small", "chat")
    with pytest.raises(ModelNotFound):
        tenancy.keys[A].check("llama:7b" if "*" not in written else "small:7b", "chat")


def test_what_a_tenant_may_not_use_is_told_like_what_does_not_exist() -> None:
    """So that nobody learns the names of others' models."""
    tenancy = _tenancy(
        f'tenants: {{t: {{keys_sha256: [{A}], routes: [cheap]}}, u: {{keys_sha256: [{B}], models: ["small*"]}}}}'
    )
    tenancy.keys[A].check("small", "cheap")
    tenancy.keys[B].check("small-2", "cheap")
    for key, model, route in ((A, "llama", "chat"), (B, "llama", "chat")):
        with pytest.raises(ModelNotFound, match="no route answers this model"):
            tenancy.keys[key].check(model, route)


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        (f"tenants: {{t: {{keys_sha256: [{A}, {A}]}}}}", "tenants.t.keys_sha256[1]", "twice"),
        (f"tenants: {{t: {{keys_sha256: [{A}]}}, u: {{keys: {{k: {{sha256: {A}}}}}}}}}", "tenants.u.keys.k", "`t` too"),
        (f"tenants: {{t: {{keys_sha256: [{A}], team: x}}}}", "tenants.t.team", "no team `x`"),
        (f"tenants: {{t: {{keys_sha256: [{A}], routes: [x]}}}}", "tenants.t.routes", "no route `x`"),
        ("limits: {backends: {x: []}}", "limits.backends.x", "no backend `x`"),
        ("limits: {time_zone: Mars/Base}", "limits.time_zone", "no time zone"),
        ("limits: {models: {m: [{requests: 1, per: year}]}}", "limits.models.m[0].per", "no period"),
        ("limits: {models: {m: [{requests: 1}]}}", "limits.models.m[0]", "`per`"),
        ("limits: {models: {m: [{concurrent: 1, per: day}]}}", "limits.models.m[0]", "`per`"),
        ("limits: {models: {m: [{requests: 1, tokens: 1, per: day}]}}", "limits.models.m[0]", "one limit has one of"),
        ("limits: {models: {m: [{requests: -1, per: day}]}}", "limits.models.m[0].requests", "at least 0"),
        ("limits: {models: {m: [{requests: 1.5, per: day}]}}", "limits.models.m[0].requests", "whole number"),
        (
            "limits: {models: {m: [{requests: 1, per: day}, {requests: 2, per: day}]}}",
            "limits.models.m[1]",
            "limited twice",
        ),
        (
            f"tenants: {{t: {{keys: {{k: {{sha256: {A}, expires: 2027-01-01T00:00:00}}}}}}}}",
            "tenants.t.keys.k.expires",
            "offset from UTC",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, where: str, words: str) -> None:
    """Whoever wrote the file finds it without reading our code."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        _tenancy(text)
    assert where == caught.value.where
