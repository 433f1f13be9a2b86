"""Mistakes that are gathered and told together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.rules.faults import Faults, Misfit, misfit_error

WORDS = st.lists(st.sampled_from("abcdef"), max_size=12)


def _error(words: str) -> ConfigurationError:
    return ConfigurationError(words, where="here")


@given(levels=st.lists(WORDS, max_size=4))
def test_all_that_was_kept_is_told_once_in_the_order_in_which_it_was_found(levels: list[list[str]]) -> None:
    """However they are nested; and nothing is raised where nothing was found."""
    outer = Faults()
    for words in levels:
        with outer.kept():
            inner = Faults()
            for word in words:
                with inner.kept():
                    raise _error(word)
            inner.tell()
    expected = list(dict.fromkeys(word for words in levels for word in words))
    if not expected:
        outer.tell(file="f")
        return
    with pytest.raises(ConfigurationError) as told:
        outer.tell(file="f")
    assert [f"f: here: {word}" for word in expected] == [str(one) for one in told.value.all]
    assert all(one.beside == () for one in told.value.beside)


def test_something_stands_in_for_what_is_at_fault() -> None:
    """So that what follows can be looked at, too."""
    faults = Faults()

    def fail() -> str:
        raise _error("no")

    assert ["made", "other"] == [faults.either(make, lambda: "other") for make in (lambda: "made", fail)]
    assert 1 == len(faults)


def test_other_errors_are_not_kept() -> None:
    """A bug is no mistake of the file."""
    with pytest.raises(ZeroDivisionError), Faults().kept():
        1 / 0  # noqa: B018  # it raises


def _misfit(where: str, **fields: object) -> Misfit:
    return Misfit(ConfigurationError("wrong", where=where), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([_misfit("a"), _misfit("b"), _misfit("a")], ["a", "b"]),
        ([_misfit("a"), _misfit("a.b"), _misfit("a.b[0]"), _misfit("ab")], ["a.b[0]", "ab"]),
        ([_misfit("r.models", missing=True), _misfit("r.model", unknown=True, instead="models")], ["r.model"]),
        ([_misfit("models", missing=True), _misfit("model", unknown=True, instead="models")], ["model"]),
        (
            [_misfit("s.models", missing=True), _misfit("r.model", unknown=True, instead="models")],
            ["r.model", "s.models"],
        ),
    ],
)
def test_of_each_place_one_is_told_and_no_consequence(found: list[Misfit], told: list[str]) -> None:
    """The deepest of what a value may be; and a misspelt name, without the one that is missing because of it."""
    assert told == [one.where for one in misfit_error(found).all]
