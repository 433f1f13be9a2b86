import hashlib
from typing import Any

import httpx
import pytest

from gateway.door import Door
from gateway.errors import Forbidden, HeadersTooLarge, Unauthenticated
from gateway.metrics_key import MetricsKey
from gateway.rules.tenancy import Identity

TENANT, OPERATOR = b"sk-acme-1", b"sk-operator-2"
KEYS = {hashlib.sha256(TENANT).hexdigest(): Identity(tenant="acme")}
LOCKED, OPEN = Door(KEYS, max_header_bytes=256), Door({}, max_header_bytes=256)


def _bearer(key: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + key)]


@pytest.mark.parametrize("door", [LOCKED, OPEN])
def test_the_operators_key_opens(door: Door) -> None:
    """Whether tenants have keys or not."""
    MetricsKey(OPERATOR.decode()).check(door, _bearer(OPERATOR))


def test_where_nobody_has_a_key_everybody_reads() -> None:
    """As everything else is open there."""
    MetricsKey(None).check(OPEN, [])


@pytest.mark.parametrize("operator", [None, OPERATOR.decode()])
def test_a_tenants_key_is_known_and_does_not_open(operator: str | None) -> None:
    """Metrics speak of every route and backend, whoever may use it."""
    with pytest.raises(Forbidden) as told:
        MetricsKey(operator).check(LOCKED, _bearer(TENANT))
    assert (403, "forbidden") == (told.value.http_status, told.value.code)


@pytest.mark.parametrize("headers", [[], _bearer(b"sk-nobody"), [*_bearer(OPERATOR), (b"x-api-key", TENANT)]])
def test_strangers_stay_outside(headers: list[tuple[bytes, bytes]]) -> None:
    """Without a key, with one that nobody has, with two that differ."""
    with pytest.raises(Unauthenticated):
        MetricsKey(OPERATOR.decode()).check(LOCKED, headers)


def test_a_key_is_asked_for_where_the_operator_has_one() -> None:
    """Though no tenant has any."""
    with pytest.raises(Unauthenticated):
        MetricsKey(OPERATOR.decode()).check(OPEN, [])


def test_the_header_block_is_bounded_here_too() -> None:
    """Before anything is hashed."""
    with pytest.raises(HeadersTooLarge):
        MetricsKey(OPERATOR.decode()).check(OPEN, [(b"x", b"y" * 300)])


async def test_a_gateway_shows_its_metrics_to_its_operator(make_site: Any) -> None:
    """Over HTTP: 200 for the operator, 403 for a tenant, 401 for a stranger; and the key is among its secrets."""
    digest = hashlib.sha256(TENANT).hexdigest()
    policy = f"""
        backends: {{a: {{use: fake}}}}
        routes: {{r: {{models: ["*"], targets: [a]}}}}
        tenants: {{acme: {{keys_sha256: [{digest}]}}}}
    """
    async with make_site(metrics_key=OPERATOR.decode()).running(policy) as gateway:
        transport = httpx.ASGITransport(app=gateway.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            keys = {"operator": OPERATOR, "tenant": TENANT, "stranger": b"sk-nobody"}
            statuses = {
                who: (await client.get("/metrics", headers={"x-api-key": key.decode()})).status_code
                for who, key in keys.items()
            }
    assert {"operator": 200, "tenant": 403, "stranger": 401} == statuses
    assert OPERATOR.decode() in gateway.secrets()
