from gateway.card import Card


def test_a_models_card_goes_before_its_backends_field_by_field() -> None:
    """What it leaves open comes from the backend's."""
    below = Card(precision="fp8", engine="vllm", equivalence="claimed")
    above = Card(precision="bf16")
    assert Card(precision="bf16", engine="vllm", equivalence="claimed") == above.over(below)
    assert above == above.over(None)


def test_evidence_stays_with_the_equivalence_that_it_is_of() -> None:
    """A model that only claims does not borrow its backend's measurement."""
    below = Card(equivalence="measured", evidence="200 greedy answers, 3 differ")
    assert Card(equivalence="claimed") == Card(equivalence="claimed").over(below)
    assert below.evidence == Card(precision="fp8").over(below).evidence


def test_what_nobody_knows_reaches_nothing() -> None:
    """Verified is more than measured, and that is more than claimed."""
    assert not any(Card().reaches(wanted) for wanted in ("claimed", "measured", "verified"))
    measured = Card(equivalence="measured")
    assert [True, True, False] == [measured.reaches(wanted) for wanted in ("claimed", "measured", "verified")]


def test_what_is_stated_has_no_empty_words() -> None:
    """As clients see it."""
    assert {"precision": "fp8", "equivalence": "claimed"} == Card(precision="fp8", equivalence="claimed").stated()
