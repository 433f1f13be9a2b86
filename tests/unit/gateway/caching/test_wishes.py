import pytest

from gateway.caching.wishes import Wishes, read_wishes


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Wishes()),
        ([b"no-cache"], Wishes(0.0)),
        ([b"No-Store"], Wishes(0.0, store=False)),
        ([b"no-store, no-cache"], Wishes(0.0, store=False)),
        ([b"no-cache", b"no-store"], Wishes(0.0, store=False)),
        ([b"max-age=60"], Wishes(60.0)),
        ([b'max-age="60", max-age=5'], Wishes(5.0)),
        ([b"max-age=0"], Wishes(0.0)),
        ([b"max-age=soon, only-if-cached, ,=,"], Wishes()),
        ([b"max-age=\xb2"], Wishes()),
    ],
)
def test_what_a_client_says_of_caches_is_read(values: list[bytes], expected: Wishes) -> None:
    """Several lines are one; what nobody understands is passed over."""
    headers = [(b"accept", b"no-store"), *((b"cache-control", value) for value in values)]
    assert expected == read_wishes(headers)
