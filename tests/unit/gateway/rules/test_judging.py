import pytest

from gateway.rules.judging import drawn


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_the_share_of_ids_that_is_drawn_is_the_one_asked_for(share: float) -> None:
    """Of ten thousand fixed ids, within four standard deviations."""
    ids = [f"req-{number}" for number in range(10_000)]
    hits = sum(drawn(request_id, "judge", share) for request_id in ids)
    assert abs(hits - 10_000 * share) < 4 * (10_000 * share * (1 - share)) ** 0.5


def test_an_id_is_drawn_or_not_for_good() -> None:
    """The same lot for a larger share; another lot for another purpose."""
    ids = [f"req-{number}" for number in range(1000)]
    few = {request_id for request_id in ids if drawn(request_id, "judge", 0.1)}
    assert few == {request_id for request_id in ids if drawn(request_id, "judge", 0.1)}
    assert few < {request_id for request_id in ids if drawn(request_id, "judge", 0.2)}
    assert few != {request_id for request_id in ids if drawn(request_id, "shadow", 0.1)}
    assert all(drawn(request_id, "judge", 1.0) for request_id in ids)
