"""Values inside JSON text replaced by their paths; all else stays as it was written, byte for byte."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

Path = tuple[str | int, ...]

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_ENCODE = msgspec.json.Encoder().encode


def with_values(text: bytes, changes: Mapping[Path, bytes]) -> bytes:
    """``text`` with the values (JSON) at these paths, each of which is there; blanks between members are lost.

    Only the objects and lists that a path leads through are written anew, with their other members as they were.
    """
    if () in changes:
        return changes[()]
    below: dict[str | int, dict[Path, bytes]] = {}
    for path, value in changes.items():
        below.setdefault(path[0], {})[path[1:]] = value
    if not below:
        return text
    if isinstance(next(iter(below)), int):
        items = _LIST.decode(text)
        for at, inner in below.items():
            items[int(at)] = Raw(with_values(bytes(items[int(at)]), inner))
        return _ENCODE(items)
    members = _OBJECT.decode(text)
    for name, inner in below.items():
        members[str(name)] = Raw(with_values(bytes(members[str(name)]), inner))
    return _ENCODE(members)
