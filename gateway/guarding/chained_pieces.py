"""A text that is told piece by piece, the words or the segments of a transcript, and what each says once it changed.

Guards see such pieces as one text, so that they find what stands in several. Of what they make of it each piece gets a
part, whatever the pieces are: joined they say the new text, and nothing that is not in it.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

_FAR_WORDS, _FAR_CHARACTERS = 32, 512
"""How far behind a change it is looked for where both texts go on alike. What is further away joins the change."""

_WORD = re.compile(r"\s*\S+|\s+")


def joints(pieces: Sequence[str], told: str) -> list[str]:
    """What stands behind each piece where they are joined: a blank, unless they bring their own, or ``told`` has none.

    ``told`` is the same as one text.
    """
    if "".join(pieces).strip() == told.strip():
        return [""] * len(pieces)
    behind = [_joint(piece, following) for piece, following in pairwise(pieces)]
    return [*behind, ""] if pieces else []


def joined(pieces: Iterable[str], behind: Iterable[str]) -> str:
    """The one text."""
    return "".join([part for both in zip(pieces, behind, strict=True) for part in both])


def resaid_pieces(pieces: Sequence[str], behind: Sequence[str], new: str) -> list[str]:
    """The pieces once their text is ``new``: those that it has no more are empty, and what is new is in the first."""
    if new == joined(pieces, behind):
        return list(pieces)
    words = [_WORD.findall(piece) or [""] for piece in pieces]
    inside = [[""] * (len(own) - 1) + [joint] for own, joint in zip(words, behind, strict=True)]
    said = iter(_resaid([word for own in words for word in own], [joint for own in inside for joint in own], new))
    return ["".join(islice(said, len(own))) for own in words]


def _resaid(words: Sequence[str], behind: Sequence[str], new: str) -> list[str]:
    out = [""] * len(words)
    at = word = 0
    while word < len(words):
        same = words[word] + behind[word]
        if new.startswith(same, at):
            out[word] = words[word]
            at += len(same)
            word += 1
            continue
        following, goes_on = _alike_again(words, behind, new, word, at)
        out[word] = new[at:goes_on].removesuffix(behind[following - 1])
        at, word = goes_on, following
    if out:
        out[-1] += new[at:]
    return out


def _alike_again(words: Sequence[str], behind: Sequence[str], new: str, word: int, at: int) -> tuple[int, int]:
    """The word behind ``word``, and its place in ``new`` from ``at`` on, that is nearest; else where both end.

    Of two that say the same it is the one after which the next word follows.
    """
    until = at + _FAR_CHARACTERS
    found: list[tuple[int, bool, int]] = []
    for following in range(word + 1, min(word + 1 + _FAR_WORDS, len(words))):
        blank = words[following - 1] if words[following - 1].isspace() else ""
        before, said = blank + behind[following - 1], words[following] + behind[following]
        if words[following].strip() and (place := new.find(before + said, at, until)) >= 0:
            place += len(before)
            rest = "".join(words[following + 1 : following + 2])
            found.append((place, not new.startswith(rest, place + len(said)), following))
    place, _, following = min(found, default=(len(new), False, len(words)))
    return following, place


def _joint(piece: str, following: str) -> str:
    bare = piece and following and not piece[-1].isspace() and not following[0].isspace()
    return " " if bare else ""
