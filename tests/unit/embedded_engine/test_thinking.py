"""A model that thinks: where its thought begins and ends, how long it is, and what the request gets of it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded_engine.errors import InvalidRequest
from embedded_engine.messages import ChatMessage, Done, Generate, GrammarText, Text
from embedded_engine.thinking import Place, ThinkingMarks, ThinkingPlace
from embedded_engine.thinking_budget import ThinkingBudget
from embedded_engine.turns import Reasoning
from embedded_engine.vocabulary import Vocabulary
from tests.unit.embedded_engine.toy import END, ToyKernels

OPENED = (
    "{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}<|/turn|>{% endfor %}<|turn|>assistant\n"
    "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}"
)
UNOPENED = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}<|turn|>assistant{{ '\n' }}"
_DRAWN = [60, 47, 116, 62, 10, 32, 97, 256, 258, 240, 159]
QUESTION = (ChatMessage(role="user", content="<think> why? </think>"),)


def _says(script: bytes, answer: bytes | None, lead: bytes) -> Callable[[tuple[int, ...]], int]:
    """A model that says the script and ends; after a thought that somebody else ended it says ``answer``."""

    def next_token(history: tuple[int, ...]) -> int:
        text = bytes(token for token in history if token < 256)
        said, words = text.rpartition(b"assistant\n")[2].removeprefix(lead), script
        if answer is not None and b"</think>" in said:
            said, words = said.rpartition(b"</think>")[2].lstrip(b"\n"), answer
        return words[len(said)] if len(said) < len(words) else END

    return next_token


def _ask(
    make_engine: Any, template: str, script: bytes, answer: bytes | None = None, **fields: Any
) -> tuple[str, str, Done, list[Text]]:
    lead = b"<think>\n" if template == OPENED else b""
    engine = make_engine(ToyKernels(template=template, next_token=_says(script, answer, lead)), context_tokens=256)
    engine.submit(engine.prepare(Generate(id=1, messages=QUESTION, temperature=0, **fields)))
    texts: list[Text] = []
    while engine.busy:
        for event in engine.step():
            if isinstance(event, Text):
                texts.append(event)
            else:
                done = event
    return "".join(it.reasoning for it in texts), "".join(it.text for it in texts), done, texts


@pytest.mark.parametrize(("template", "lead"), [(OPENED, b""), (UNOPENED, b"<think>\n")])
def test_a_thought_is_parted_from_the_answer(make_engine: Any, template: str, lead: bytes) -> None:
    """Whoever opens it; its marks and the white space around them are nobody's; all tokens are counted."""
    answer = lead + b"hm, </ no\n</think>\n\nYes. <think>x</think>"
    reasoning, text, done, _ = _ask(make_engine, template, answer)
    assert ("hm, </ no", "Yes. <think>x</think>") == (reasoning, text)
    assert ("stop", len(answer)) == (done.reason, done.completion_tokens)
    assert 0 < done.reasoning_tokens < len(answer)


def test_a_model_that_does_not_begin_with_a_thought_does_not_think(make_engine: Any) -> None:
    """Marks in the middle of an answer are text, and so are those of the user."""
    reasoning, text, done, _ = _ask(make_engine, UNOPENED, b" So: <think>x</think> is a tag.")
    assert ("", " So: <think>x</think> is a tag.", 0) == (reasoning, text, done.reasoning_tokens)


def test_a_model_whose_template_does_not_think_says_its_tags(make_engine: Any) -> None:
    """Nothing is parted off, and a budget does nothing."""
    template = "{{ messages[0].content }}<|turn|>assistant{{ '\n' }}"
    reasoning, text, _, _ = _ask(
        make_engine, template, b"<think>x</think>y", reasoning=Reasoning(max_tokens=1), max_tokens=40
    )
    assert ("", "<think>x</think>y") == (reasoning, text)


@pytest.mark.parametrize("bound", [0, 1, 5])
def test_at_the_bound_the_thought_ends_and_the_model_answers(make_engine: Any, bound: int) -> None:
    """Its own words would go on and on; what ends it is forced, and none of it is thought."""
    endless = b"abcdefgh" * 20
    wanted = Reasoning(max_tokens=bound)
    reasoning, text, done, _ = _ask(make_engine, OPENED, endless, b"Yes.", reasoning=wanted, max_tokens=100)
    assert (endless[:bound].decode(), "Yes.", "stop") == (reasoning, text, done.reason)
    assert bound <= done.reasoning_tokens <= bound + len("\n</think>")


def test_there_is_always_a_bound(make_engine: Any) -> None:
    """Half of what the answer may have, where nobody says; the effort's share where somebody does."""
    endless, answer = b"a" * 200, b"Yes."
    for effort, share in ((None, 0.5), ("low", 0.2), ("high", 0.8), ("none", 0.0)):
        wanted = Reasoning(effort=effort)
        reasoning, text, _, _ = _ask(make_engine, OPENED, endless, answer, reasoning=wanted, max_tokens=100)
        assert (int(100 * share), "Yes.") == (len(reasoning), text)


def test_the_bound_leaves_room_for_an_answer(make_engine: Any) -> None:
    """A budget as large as the answer would leave none."""
    reasoning, text, _, _ = _ask(
        make_engine, OPENED, b"a" * 99, b"Yes.", reasoning=Reasoning(max_tokens=99), max_tokens=40
    )
    assert reasoning
    assert "Y" == text[:1]


def test_a_character_is_finished_before_the_thought_ends(make_engine: Any) -> None:
    """The bound falls into an emoji of four tokens."""
    thought = "ab👋cd".encode()
    reasoning, text, _, _ = _ask(
        make_engine, OPENED, thought * 9, b"Yes.", reasoning=Reasoning(max_tokens=3), max_tokens=99
    )
    assert ("ab👋", "Yes.") == (reasoning, text)


def test_a_request_may_want_the_choice_to_stop_at_the_bound(make_engine: Any) -> None:
    """It ends as any that is cut short."""
    wanted = Reasoning(max_tokens=4, on_exceed="stop")
    reasoning, text, done, _ = _ask(make_engine, OPENED, b"a" * 99, reasoning=wanted, max_tokens=99)
    assert ("aaaa", "", "length") == (reasoning, text, done.reason)


def test_a_model_that_is_told_not_to_think_is_not_asked_to(make_engine: Any) -> None:
    """The template says so, and its own marks are nobody's words."""
    wanted = Reasoning(enabled=False)
    reasoning, text, done, _ = _ask(make_engine, OPENED, b"", b"Yes.", reasoning=wanted, max_tokens=99)
    assert ("", "Yes.", 0) == (reasoning, text, done.reasoning_tokens)


def test_a_grammar_holds_the_answer_and_not_the_thought(make_engine: Any) -> None:
    """It begins where the answer does."""
    grammar = GrammarText(kind="choice", text='["no", "nope"]')
    reasoning, text, _, _ = _ask(
        make_engine,
        OPENED,
        b"Yes, yes!\n</think>Yes.",
        grammar=grammar,
        reasoning=Reasoning(max_tokens=50),
        max_tokens=90,
    )
    assert "Yes, yes!" == reasoning
    assert text in {"no", "nope"}


def test_stop_strings_are_for_the_answer(make_engine: Any) -> None:
    """One inside the thought ends nothing."""
    reasoning, text, done, _ = _ask(make_engine, OPENED, b"a END b</think>So be it. END of it", stop=("END",))
    assert ("a END b", "So be it. ", "stop") == (reasoning, text, done.reason)


@pytest.mark.parametrize(
    ("reasoning", "param"),
    [
        (Reasoning(effort="enormous"), "reasoning_effort"),
        (Reasoning(max_tokens=-1), "reasoning.max_tokens"),
        (Reasoning(min_tokens=-1), "reasoning.min_tokens"),
    ],
)
def test_a_budget_out_of_range_is_refused(make_engine: Any, reasoning: Reasoning, param: str) -> None:
    """By its name."""
    with pytest.raises(InvalidRequest) as caught:
        make_engine().prepare(Generate(messages=QUESTION, reasoning=reasoning))
    assert param == caught.value.param


class _TokenMarks(ToyKernels):
    """BOS and TURN are this model's marks."""

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """See `Kernels.piece`."""
        names = {256: b"<think>", 258: b"</think>"}
        return names[token] if special and token in names else super().piece(token, special=special)


def _marks() -> tuple[ThinkingMarks, Vocabulary]:
    vocabulary = Vocabulary(_TokenMarks())
    marks = ThinkingMarks(
        opening="<think>", closing="</think>", opening_token=256, closing_token=258, end=(10, 258, 10)
    )
    return marks, vocabulary


def test_where_a_mark_is_a_token_its_letters_are_text() -> None:
    """Only the token ends the thought."""
    marks, vocabulary = _marks()
    place = ThinkingPlace(marks, vocabulary, opened=False)
    thought = b""
    for token in [32, 256, *b"x</think>y", 258]:
        place.advance(token)
        thought += place.thought
    assert (b"x</think>y", Place.ANSWER, 10) == (thought, place.place, place.tokens)


def test_waiting_is_what_comes_in_place_of_an_early_end() -> None:
    """Where a request asks for it: the end mark's probability goes to the word, until there are enough tokens."""
    marks, vocabulary = _marks()
    budget = ThinkingBudget(marks, vocabulary, opened=True, max_tokens=50, min_tokens=4, wait=(87, 97, 105, 116))
    assert (258, 87) == budget.swapped
    budget.advance(120)
    budget.advance(87)
    forced = budget.forced()
    for token in forced:
        assert budget.swapped is None
        budget.advance(token)
    assert ((97, 105, 116), None, True) == (forced, budget.swapped, budget.thinking)
    budget.advance(258)
    assert not budget.thinking


def test_nothing_waits_unless_it_is_asked_for() -> None:
    """The model's own end is its end."""
    marks, vocabulary = _marks()
    budget = ThinkingBudget(marks, vocabulary, opened=True, max_tokens=50, wait=(87,))
    assert budget.swapped is None


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([60, 47, 116, 62, 10, 32, 97, 256, 258, 240, 159]), max_size=30),
    st.integers(0, 12),
    st.booleans(),
)
def test_no_thought_is_longer_than_its_budget(tokens: Sequence[int], bound: int, opened: bool) -> None:
    """Whatever the model says: the bound, and at most three tokens more to finish a character, and the mark."""
    marks, vocabulary = _marks()
    budget = ThinkingBudget(marks, vocabulary, opened=opened, max_tokens=bound)
    place = ThinkingPlace(marks, vocabulary, opened=opened)
    for drawn in tokens:
        token = budget.forced()[0] if budget.forced() else drawn
        budget.advance(token)
        place.advance(token)
    assert place.tokens <= bound + 3 + 1
