from embedded_engine.sampling.randomness import uniform


def test_a_number_depends_on_seed_choice_and_position_alone() -> None:
    """Each of the three moves it; the same three give the same number."""
    numbers = [uniform(*key) for key in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)]]
    assert 4 == len(set(numbers))
    assert numbers[0] == uniform(1, 0, 0)


def test_seeds_stay_what_they_were() -> None:
    """Who wrote a seed down gets the same answer from every release; also from negative seeds, which JSON allows."""
    assert [0.46229248451989635, 0.5431634051262734, 0.557237519674077, 0.6647386672906517, 0.7629020801405444] == [
        uniform(*key) for key in [(0, 0, 0), (7, 0, 0), (7, 3, 1000), (-5, 0, 0), (2**63, 0, 1)]
    ]


def test_numbers_spread_evenly() -> None:
    """Chi-square over 100 bins of 20,000 positions; sound numbers would fail with probability 1e-4."""
    bins = [0] * 100
    for position in range(20_000):
        bins[int(uniform(11, 0, position) * 100)] += 1
    critical_99_degrees = 161.3
    assert sum((count - 200) ** 2 / 200 for count in bins) < critical_99_degrees
