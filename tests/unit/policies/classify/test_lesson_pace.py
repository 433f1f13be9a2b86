"""How many answers of a second are learned from."""

from policies.classify._lesson_pace import FIRST_LESSONS, LESSONS_PER_S, LessonPace


def test_few_answers_are_all_learned_from() -> None:
    """Twenty a second, for ten minutes."""
    pace = LessonPace()
    assert all(pace.takes(1000 + number / 20) for number in range(12_000))


def test_of_many_some_a_second_are() -> None:
    """Of two thousand a second; after a quiet time more at once."""
    pace = LessonPace()
    taken = [pace.takes(1000 + number / 2000) for number in range(20_000)]
    assert abs(sum(taken[2000:]) - 9 * LESSONS_PER_S) <= 2
    assert all(taken[: int(FIRST_LESSONS)])


def test_a_clock_that_stands_or_goes_back_gives_no_room() -> None:
    """Two hundred lessons, and no more until time goes on beyond where it was."""
    pace = LessonPace()
    assert 200 == sum(pace.takes(moment) for moment in [50.0] * 300 + [10.0] * 300)
    assert pace.takes(50.5)
