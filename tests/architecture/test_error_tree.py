"""The drawing of the error tree is the error tree."""

import inspect
import re

from gateway import errors, fault, upstream_errors
from gateway.errors import HeadraceError

# `│   ├── InvalidRequest        400  a field is wrong`: four characters a level, a name, and perhaps a status.
_LINE = re.compile(r"(?P<branches>(?:[│ ]   )*)[├└]── (?P<name>\w+) +(?P<status>\d{3}|4xx)?")

Tree = dict[str, tuple[str, str]]


def _drawn() -> Tree:
    """Each name of the drawing with its parent's and its status."""
    tree: Tree = {"HeadraceError": ("", "")}
    path = ["HeadraceError"]
    for line in (errors.__doc__ or "").splitlines():
        match = _LINE.match(line.removeprefix("    "))
        if match is None:
            continue
        depth = len(match["branches"]) // 4 + 1
        assert depth <= len(path), f"{match['name']} hangs on nothing"
        path[depth:] = [match["name"]]
        tree[match["name"]] = (path[depth - 1], match["status"] or "")
    return tree


def _real() -> dict[str, type[HeadraceError]]:
    ours = {errors.__name__, fault.__name__, upstream_errors.__name__}
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, HeadraceError) and value.__module__ in ours
    }


def test_every_class_is_drawn_and_every_name_exists() -> None:
    """A new error is found by whoever looks at the drawing."""
    assert set(_real()) == set(_drawn())


def test_every_branch_hangs_where_its_class_does() -> None:
    """The drawn parent is the base class."""
    bases = {name: value.__base__.__name__ for name, value in _real().items() if value is not HeadraceError}
    assert bases == {name: parent for name, (parent, _) in _drawn().items() if parent}


def test_the_numbers_are_what_clients_get() -> None:
    """A drawn status is the class's; where none is drawn no client ever sees the class itself."""
    real = _real()
    numbers = {name: status for name, (_, status) in _drawn().items() if status not in {"", "4xx"}}
    assert {name: str(real[name].http_status) for name in numbers} == numbers
    abstract = {name for name, (_, status) in _drawn().items() if not status}
    assert {"HeadraceError", "ClientError", "Rejected", "UpstreamError", "ConfigurationError"} == abstract
    assert 400 <= real["UpstreamRefused"]("x").http_status < 500


def test_only_upstream_errors_are_retried_and_blamed() -> None:
    """What is no backend's fault neither moves on to the next one nor counts against this one."""
    retried = {name for name, value in _real().items() if value.retryable or value.blames_backend or value.rest_s}
    assert all(issubclass(_real()[name], errors.UpstreamError) for name in retried)
    assert "UpstreamRefused" not in retried
    assert {name for name, value in _real().items() if issubclass(value, errors.UpstreamError)} - retried == {
        "UpstreamRefused"
    }
