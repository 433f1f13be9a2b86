from embedded_engine.speculation.markov import MarkovTable, MarkovTables


def _taught(*texts: list[int]) -> MarkovTable:
    table = MarkovTable()
    for text in texts:
        for before, last, token in zip(text, text[1:], text[2:], strict=False):
            table.learn(before, last, token)
    return table


def test_what_followed_two_tokens_follows_again() -> None:
    """The more often it did, the likelier."""
    once, often = _taught([1, 2, 3]), _taught(*[[1, 2, 3]] * 8)
    assert 3 == once.after(1, 2).token == often.after(1, 2).token
    assert once.after(1, 2).likely < often.after(1, 2).likely < 1


def test_one_token_is_better_than_nothing() -> None:
    """Two tokens that were never met together are judged by the last of them, and less surely."""
    table = _taught([1, 2, 3], [1, 2, 3])
    assert 3 == table.after(9, 2).token
    assert table.after(9, 2).likely < table.after(1, 2).likely


def test_nothing_is_known_of_new_tokens() -> None:
    """And nothing is said."""
    after = _taught([1, 2, 3]).after(7, 8)
    assert (-1, 0.0, 0) == (after.token, after.likely, after.seen)
    assert 0 == after.probability(3)


def test_probabilities_never_sum_to_more_than_one() -> None:
    """Over all that is known of a context."""
    table = _taught(*[[1, 2, token] for token in (3, 3, 4, 5, 3)], [8, 2, 6])
    assert sum(table.after(1, 2).probability(token) for token in range(10)) <= 1


def test_it_follows_the_text() -> None:
    """What has been said lately outweighs what was said for long before."""
    table = _taught(*[[1, 2, 3]] * 500, *[[1, 2, 4]] * 120)
    assert 4 == table.after(1, 2).token


def test_many_successors_leave_room_for_the_frequent_one() -> None:
    """Rare tokens push each other out, not the one that comes each other time."""
    table = _taught(*[[1, 2, token] for other in range(100, 160) for token in (7, other)])
    assert 7 == table.after(1, 2).token
    assert len(table._counts[2]) <= 4


def test_a_table_is_bounded() -> None:
    """Contexts longest unused go first."""
    table = MarkovTable(most_contexts=10)
    for token in range(100):
        table.learn(token, token + 1, token + 2)
        table.learn(500, 501, 502)
        assert len(table) <= 10
    assert 502 == table.after(500, 501).token
    assert -1 == table.after(0, 1).token


def test_tables_never_cross_scopes() -> None:
    """What one tenant's answers teach is nothing that another's drafts can be fast with."""
    tables = MarkovTables()
    tables.of("a").learn(1, 2, 3)
    assert -1 == tables.of("b").after(1, 2).token
    assert 3 == tables.of("a").after(1, 2).token


def test_scopes_are_bounded() -> None:
    """Those longest unused are forgotten."""
    tables = MarkovTables(most_scopes=2)
    for scope in ("a", "b", "c"):
        tables.of(scope).learn(1, 2, 3)
    assert [3, 3, -1] == [tables.of(scope).after(1, 2).token for scope in ("c", "b", "a")]
