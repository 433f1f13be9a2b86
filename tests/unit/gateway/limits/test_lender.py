"""The arithmetic of what a replica is granted."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.lender import Line, Need, grant, line_of

AMOUNTS = st.integers(min_value=0, max_value=1000)


def _need(**fields: int) -> Need:
    return Need(**{"account": "a", "end_unix_s": 0, "amount": 100, "spent": 0, "taken": 0, "kept": 0} | fields)  # type: ignore[arg-type]


def test_what_must_be_had_is_granted_as_long_as_there_is_any() -> None:
    """All of it, then what is left, then nothing."""
    others = [Line(granted=60, spent=10, taken=20, alive=True)]
    assert [30, 40, 40] == [grant(_need(need=need), others).more for need in (30, 40, 50)]
    assert 0 == grant(_need(need=1, kept=40), others).more


def test_what_is_only_wished_is_half_of_the_share() -> None:
    """Two replicas: a quarter of what is free."""
    others = [Line(granted=20, spent=0, taken=0, alive=True)]
    assert 20 == grant(_need(wish=90), others).more
    assert 5 == grant(_need(wish=5), others).more


def test_of_the_dead_only_what_they_spent_counts() -> None:
    """What they had borrowed or held is free again."""
    others = [Line(granted=90, spent=10, taken=50, alive=False)]
    assert (90, 10, 1, 10, 10) == grant(_need(need=90), others)


def test_of_what_the_others_have_it_is_told_what_is_taken_and_what_is_spent() -> None:
    """The rest of it comes back where they do not use it."""
    others = [
        Line(granted=60, spent=10, taken=20, alive=True),
        Line(granted=9, spent=3, taken=5, alive=True),
        Line(granted=9, spent=2, taken=9, alive=False),
    ]
    assert (0, 71, 3, 27, 15) == grant(_need(), others)


def test_what_must_be_had_is_told_as_taken_at_once() -> None:
    """Whoever asks for it takes it when it has it; what is only wished may come back."""
    need = _need(spent=5, taken=20, kept=20, need=10, wish=30)
    assert Line(granted=50, spent=5, taken=30, alive=True) == line_of(need, 30)
    assert Line(granted=24, spent=5, taken=24, alive=True) == line_of(need, 4)
    assert Line(granted=30, spent=5, taken=20, alive=True) == line_of(need._replace(need=0), 10)


@given(
    amount=AMOUNTS,
    kept=AMOUNTS,
    need=AMOUNTS,
    wish=AMOUNTS,
    others=st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, st.booleans()), max_size=4),
)
def test_what_is_granted_is_never_more_than_there_is(
    amount: int, kept: int, need: int, wish: int, others: list[tuple[int, int, int, bool]]
) -> None:
    """All claims and the new grant stay within the limit, wherever they were within it before."""
    lines = [Line(granted, spent, max(spent, taken), alive) for granted, spent, taken, alive in others]
    claimed = sum(max(line.granted, line.taken) if line.alive else line.spent for line in lines)
    more = grant(_need(amount=amount, kept=kept, need=need, wish=wish), lines).more
    assert 0 <= more <= max(need, wish)
    assert more == 0 or claimed + kept + more <= amount
