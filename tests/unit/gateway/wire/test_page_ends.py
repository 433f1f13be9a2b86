"""The ends of a page of a list."""

import pytest

from gateway.wire.page_ends import page_ends


@pytest.mark.parametrize(("ids", "ends"), [([], (None, None)), (["a"], ("a", "a")), (["c", "b", "a"], ("c", "a"))])
def test_a_page_names_its_first_and_its_last(ids: list[str], ends: tuple[str | None, str | None]) -> None:
    """As they stand on it; none where it is empty."""
    assert ends == page_ends(ids)
