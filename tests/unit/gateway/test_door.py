import hashlib
from typing import Any

import pytest

from gateway.door import Door, new_request_id
from gateway.errors import HeadersTooLarge, Unauthenticated
from gateway.exchange import Notes, RepeatedHeaders
from gateway.rules.tenancy import OPEN_HOUSE, Identity
from gateway.types import Operation

KEY, OTHER_KEY, STRANGE_KEY = b"sk-acme-1", b"sk-beta-2", b"sk-nobody"
EMPTY_DIGEST = hashlib.sha256(b"").hexdigest()
TENANTS = {hashlib.sha256(key).hexdigest(): Identity(tenant=name) for key, name in ((KEY, "acme"), (OTHER_KEY, "beta"))}
Headers = list[tuple[bytes, bytes]]


@pytest.fixture
def door(clock: Any) -> Door:
    """A door with two keys."""
    return Door(TENANTS, max_header_bytes=4096, clock=clock)


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"bearer " + KEY)],
        [(b"authorization", b"BEARER   " + KEY + b" ")],
        [(b"authorization", KEY)],
        [(b"x-api-key", KEY)],
        [(b"api-key", KEY)],
        [(b"x-api-key", KEY), (b"authorization", b"Bearer " + KEY)],
        [(b"authorization", b"Bearer " + KEY), (b"authorization", b"Bearer " + KEY)],
        [(b"x-api-key", b""), (b"authorization", b"Bearer " + KEY)],
    ],
)
def test_a_known_key_opens_wherever_clients_put_it(door: Door, headers: Headers) -> None:
    """The scheme's case, its absence, a second header that agrees and an empty one make no difference."""
    assert "acme" == door.identity(headers).tenant


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([], "is needed"),
        ([(b"authorization", b"Bearer")], "is needed"),
        ([(b"authorization", b"Bearer ")], "is needed"),
        ([(b"authorization", b"")], "is needed"),
        ([(b"x-api-key", b"  ")], "is needed"),
        ([(b"authorization", b"Bearer " + STRANGE_KEY)], "not known"),
        ([(b"authorization", b"Basic " + KEY)], "not known"),
        ([(b"authorization", b"Basic c2stYWNtZS0xOg==")], "not known"),
        ([(b"authorization", b"Bearer\t" + KEY)], "not known"),
        ([(b"x-api-key", "sk-schlüssel-鍵".encode())], "not known"),
        ([(b"x-api-key", b"\xff\xfe\x00")], "not known"),
        ([(b"authorization", b"Bearer " + KEY), (b"authorization", b"Bearer " + OTHER_KEY)], "differ"),
        ([(b"x-api-key", OTHER_KEY), (b"authorization", b"Bearer " + KEY)], "differ"),
        ([(b"x-api-key", KEY), (b"authorization", b"Basic " + KEY)], "differ"),
        ([(b"x-api-key", KEY), (b"api-key", STRANGE_KEY)], "differ"),
        ([(b"x-forwarded-for", b"127.0.0.1"), (b"forwarded", b"for=127.0.0.1")], "is needed"),
        ([(b"x-api-key", hashlib.sha256(KEY).hexdigest().encode())], "not known"),
    ],
)
def test_everything_else_is_refused_without_repeating_it(door: Door, headers: Headers, words: str) -> None:
    """No key, an unknown one, two that differ, another scheme, a digest, and the claim to be a neighbour."""
    with pytest.raises(Unauthenticated, match=words) as caught:
        door.identity(headers)
    said = str(caught.value)
    assert 401 == caught.value.http_status
    for secret in (KEY, OTHER_KEY, STRANGE_KEY):
        assert secret.decode() not in said
        assert hashlib.sha256(secret).hexdigest() not in said


def test_an_empty_key_is_none_even_where_its_digest_is_listed() -> None:
    """The digest of a variable that was not set must not open the door to everybody."""
    door = Door({EMPTY_DIGEST: Identity(tenant="acme")}, max_header_bytes=4096)
    with pytest.raises(Unauthenticated, match="is needed"):
        door.identity([(b"authorization", b"Bearer ")])


def test_a_key_of_a_megabyte_is_a_header_too_large(door: Door) -> None:
    """What is over the limit is refused before anybody hashes it, with and without keys, by the same rule."""
    huge = [(b"authorization", b"Bearer " + b"k" * 1_000_000)]
    for guarded in (door, Door({}, max_header_bytes=4096)):
        with pytest.raises(HeadersTooLarge, match="4096 bytes") as caught:
            guarded.identity(huge)
        assert 431 == caught.value.http_status


def test_the_limit_is_of_all_headers_together(door: Door) -> None:
    """Names and values count, and the last byte that is allowed is allowed."""
    filler = 4096 - len(b"x-api-key") - len(KEY) - len(b"x")
    assert "acme" == door.identity([(b"x-api-key", KEY), (b"x", b"." * filler)]).tenant
    with pytest.raises(HeadersTooLarge):
        door.identity([(b"x-api-key", KEY), (b"x", b"." * (filler + 1))])


def test_without_keys_everybody_is_the_same_tenant() -> None:
    """An open house asks nobody, not even those who offer a key."""
    door = Door({}, max_header_bytes=4096)
    assert not door.locked
    assert [OPEN_HOUSE] * 2 == [door.identity(headers).tenant for headers in ([], [(b"x-api-key", KEY)])]


def test_who_is_refused_has_an_arrival_all_the_same(door: Door, make_exchange: Any, clock: Any) -> None:
    """A refusal at the door is recorded, under no tenant's name."""
    knock = door.arrive(make_exchange(operation=Operation.COMPLETION, headers=[(b"x-api-key", STRANGE_KEY)]))
    arrival = knock.arrival
    assert isinstance(knock.refusal, Unauthenticated)
    assert ("", Operation.COMPLETION, clock.now_s(), clock.unix_s()) == (
        arrival.tenant,
        arrival.operation,
        arrival.received_s,
        arrival.received_unix_s,
    )


def test_an_arrival_knows_its_tenant_and_its_trace(door: Door, make_exchange: Any) -> None:
    """The key names the tenant, whatever else the headers claim; the caller's trace goes on."""
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    headers = [
        (b"x-api-key", KEY),
        (b"x-tenant", b"beta"),
        (b"traceparent", f"00-{trace_id}-b7ad6b7169203331-01".encode()),
    ]
    knock = door.arrive(make_exchange(headers=headers))
    assert (None, "acme", trace_id) == (knock.refusal, knock.arrival.tenant, knock.arrival.trace.trace_id)


def test_a_key_opens_until_it_expires(clock: Any) -> None:
    """At the moment itself it opens no more, and the error says why."""
    expiring = Identity(tenant="acme", key="ci", expires_unix_s=clock.unix_s() + 10)
    door = Door({hashlib.sha256(KEY).hexdigest(): expiring}, max_header_bytes=4096, clock=clock)
    assert expiring is door.identity([(b"x-api-key", KEY)])
    clock.now += 10
    with pytest.raises(Unauthenticated, match="expired"):
        door.identity([(b"x-api-key", KEY)])


def test_request_ids_differ() -> None:
    """A name that is given twice would mix up two requests."""
    ids = {new_request_id() for _ in range(1000)}
    assert 1000 == len(ids)
    assert all(name.startswith("req_") and len(name) == 28 for name in ids)


def test_what_a_client_says_in_passing_arrives(make_exchange: Any, clock: Any) -> None:
    """What it calls the conversation, and by when it wants the answer."""
    headers = [(b"session-id", b"s-1"), (b"x-headrace-deadline-ms", b"2500")]
    knock = Door({}, max_header_bytes=4096, clock=clock).arrive(make_exchange(headers=headers))
    assert ("s-1", 2.5, None) == (knock.arrival.session, knock.arrival.deadline_s, knock.refusal)


def test_a_key_that_was_shown_before_is_known_by_its_digest(door: Door, make_exchange: Any) -> None:
    """What it stands for now, whatever the exchange's own headers say; a digest that opens nothing is refused."""
    shown = door.digest([(b"x-api-key", KEY)])
    exchange = make_exchange(headers=[(b"x-api-key", OTHER_KEY)])
    assert "acme" == door.arrive(exchange, shown).identity.tenant
    assert "acme" == door.known(shown).tenant
    assert isinstance(door.arrive(exchange, "").refusal, Unauthenticated)
    assert ("", OPEN_HOUSE) == (
        Door({}, max_header_bytes=4096).digest([]),
        Door({}, max_header_bytes=4096).known("").tenant,
    )


def test_headers_that_come_again_are_read_once_by_each_door(door: Door, make_exchange: Any, clock: Any) -> None:
    """What they say is kept with them; whose the key is now is asked each time, by the door of the day."""
    headers, trace_id = (
        RepeatedHeaders([(b"x-api-key", KEY), (b"session-id", b"s")]),
        "0af7651916cd43dd8448eb211c80319c",
    )
    headers.append((b"traceparent", f"00-{trace_id}-b7ad6b7169203331-01".encode()))
    headers.notes = Notes()
    arrivals = [door.arrive(make_exchange(headers=headers)).arrival]
    read = headers.notes.said
    arrivals.append(door.arrive(make_exchange(headers=headers)).arrival)
    assert read is headers.notes.said
    said = [(one.tenant, one.session, one.trace.trace_id) for one in arrivals]
    assert [("acme", "s", trace_id)] * 2 == said
    assert 2 == len({one.id for one in arrivals}) == len({one.trace.span_id for one in arrivals})
    changed = Door({hashlib.sha256(KEY).hexdigest(): Identity(tenant="new")}, max_header_bytes=4096, clock=clock)
    assert "new" == changed.arrive(make_exchange(headers=headers)).arrival.tenant
    assert isinstance(
        Door(dict(list(TENANTS.items())[1:]), max_header_bytes=4096).arrive(make_exchange(headers=headers)).refusal,
        Unauthenticated,
    )
    assert OPEN_HOUSE == Door({}, max_header_bytes=4096).arrive(make_exchange(headers=headers)).arrival.tenant


def test_a_key_that_expires_between_two_requests_with_the_same_headers(make_exchange: Any, clock: Any) -> None:
    """The second is refused: nothing is kept that ends."""
    headers = RepeatedHeaders([(b"x-api-key", KEY)])
    headers.notes = Notes()
    expiring = Identity(tenant="acme", key="ci", expires_unix_s=clock.unix_s() + 10)
    door = Door({hashlib.sha256(KEY).hexdigest(): expiring}, max_header_bytes=4096, clock=clock)
    assert door.arrive(make_exchange(headers=headers)).refusal is None
    clock.now += 10
    assert isinstance(door.arrive(make_exchange(headers=headers)).refusal, Unauthenticated)


def test_an_error_in_headers_that_come_again_is_found_again(door: Door, make_exchange: Any) -> None:
    """Each time it is another: an error that was raised holds the frames that it went through."""
    headers = RepeatedHeaders([])
    headers.notes = Notes()
    refusals = [door.arrive(make_exchange(headers=headers)).refusal for _ in range(2)]
    assert all(isinstance(refusal, Unauthenticated) for refusal in refusals)
    assert refusals[0] is not refusals[1]
