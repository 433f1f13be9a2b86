"""A model small enough to reason about.

The kernels' port, really implemented, in memory, always the same to the last bit.
"""

import zlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from embedded_engine.engine import Engine
from embedded_engine.kernels.port import ContextShape, DecodeError, Logits, ModelFacts, Row, SavedCells
from embedded_engine.messages import Done, Failed, Generate, Text, TokenLogprob

BOS, END, TURN, TURN_END, MERGED = 256, 257, 258, 259, 260
TEMPLATE = (
    "{% for message in messages %}<|turn|>{{ message.role }}\n{% if message.name %}{{ message.name }}: {% endif %}"
    "{{ message.content | trim }}<|/turn|>{% endfor %}<|turn|>assistant{{ '\n' }}"
)


class _Cell:
    """One token's place in the memory."""

    def __init__(self, token: int) -> None:
        self.token = token


class ToyKernels:
    """256 byte tokens, four control tokens, and one token that merges "ab".

    Its logits are a hash of the sequence's whole history, or come from `next_token`, which is given that history and
    names the likeliest. It checks what every caller must keep: positions without gaps, sequences in range, no more
    cells than there are.
    """

    name = "toy"

    def __init__(
        self,
        *,
        template: str | None = TEMPLATE,
        next_token: Callable[[tuple[int, ...]], int] | None = None,
        batch_noise: float = 0.0,
        adds_bos: bool = False,
    ) -> None:
        self.facts = ModelFacts(
            description="toy",
            quantisation="none",
            context_tokens=512,
            vocabulary_tokens=261,
            chat_template=template,
            bos_token=BOS,
            eos_token=END,
            adds_bos=adds_bos,
        )
        self.next_token = next_token
        self.fails: Callable[[Sequence[Row]], bool] = lambda _: False
        self.not_numbers: set[int] = set()
        self.batches: list[list[Row]] = []
        self.cells: dict[int, list[_Cell]] = {}
        self._read: list[int] = []
        self._batch_noise = batch_noise
        self._logits: dict[int, Logits] = {}
        self._shape: ContextShape

    def open_context(self, shape: ContextShape) -> None:
        """See `Kernels.open_context`."""
        self._shape = shape
        self.cells = {sequence: [] for sequence in range(shape.sequences * shape.lanes)}

    def close(self) -> None:
        """See `Kernels.close`."""
        self.cells = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """See `Kernels.tokenize`."""
        raw, tokens, at = text.encode(), [BOS] if add_special and self.facts.adds_bos else [], 0
        special = {self.piece(token, special=True): token for token in range(BOS, MERGED)} if parse_special else {}
        while at < len(raw):
            for piece, token in {**special, b"ab": MERGED}.items():
                if raw.startswith(piece, at):
                    tokens.append(token)
                    at += len(piece)
                    break
            else:
                tokens.append(raw[at])
                at += 1
        return tokens

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """See `Kernels.piece`."""
        if token < BOS:
            return bytes([token])
        names = {BOS: b"<|bos|>", END: b"<|end|>", TURN: b"<|turn|>", TURN_END: b"<|/turn|>"}
        return b"ab" if token == MERGED else names[token] if special else b""

    def is_end(self, token: int) -> bool:
        """See `Kernels.is_end`."""
        return token in (END, TURN_END)

    def is_control(self, token: int) -> bool:
        """See `Kernels.is_control`."""
        return BOS <= token < MERGED

    def decode(self, rows: Sequence[Row]) -> None:
        """See `Kernels.decode`."""
        assert 0 < len(rows) <= self._shape.batch_rows
        self.batches.append(list(rows))
        if self.fails(rows):
            raise DecodeError("the toy was told to fail")
        self._logits = {}
        for index, row in enumerate(rows):
            history = self.cells[row.sequence]
            assert row.position == len(history), "a gap in the positions"
            history.append(_Cell(row.token))
            if row.wants_logits:
                self._logits[index] = self._compute(self.tokens(row.sequence), row.sequence, len(rows))
        for lane in range(self._shape.lanes):
            if self.used_cells(lane) > self._shape.kv_tokens:
                raise DecodeError("more cells than there are")

    def logits(self, row: int) -> Logits:
        """See `Kernels.logits`."""
        return self._logits[row]

    def remove(self, sequence: int, start: int = 0) -> None:
        """See `Kernels.remove`."""
        del self.cells[sequence][start:]

    def share(self, source: int, target: int, tokens: int) -> None:
        """See `Kernels.share`."""
        assert self.cells[target] == []
        assert source // self._shape.sequences == target // self._shape.sequences, "lanes share nothing"
        assert len(self.cells[source]) >= tokens
        self.cells[target] = self.cells[source][:tokens]

    def save(self, sequence: int) -> SavedCells:
        """See `Kernels.save`."""
        return np.array(self.tokens(sequence), np.int32).view(np.uint8)

    def restore(self, sequence: int, saved: SavedCells) -> bool:
        """See `Kernels.restore`."""
        assert self.cells[sequence] == []
        tokens = saved.view(np.int32)
        if self.used_cells(sequence // self._shape.sequences) + len(tokens) > self._shape.kv_tokens:
            return False
        self.cells[sequence] = [_Cell(int(token)) for token in tokens]
        return True

    def compact(self, lane: int) -> None:
        """See `Kernels.compact`."""

    def hidden_states(self, tokens: Sequence[int], start: int) -> NDArray[np.float32]:
        """See `Kernels.hidden_states`: token, position, and the sum of the tokens so far."""
        self._read = [*(self._read if start else []), *tokens]
        sums = np.cumsum(self._read)[start:]
        return np.stack([tokens, start + np.arange(len(tokens)), sums], axis=1).astype(np.float32)

    def hold(self, sequence: int, tokens: Sequence[int]) -> None:
        """Let a sequence hold these tokens, as if they had been decoded."""
        self.cells[sequence] += [_Cell(token) for token in tokens[len(self.cells[sequence]) :]]

    def tokens(self, sequence: int) -> tuple[int, ...]:
        """What a sequence holds."""
        return tuple(cell.token for cell in self.cells[sequence])

    def used_cells(self, lane: int) -> int:
        """Cells in use: those that sequences share count once."""
        first = lane * self._shape.sequences
        sequences = range(first, first + self._shape.sequences)
        return len({id(cell) for sequence in sequences for cell in self.cells[sequence]})

    def _compute(self, history: tuple[int, ...], sequence: int, rows: int) -> Logits:
        key = zlib.crc32(np.array(history, np.int32).tobytes())
        logits = np.random.default_rng(key).standard_normal(261).astype(np.float32)
        logits[BOS:MERGED] -= np.float32(3)
        if self.next_token is not None:
            logits[self.next_token(history)] = np.float32(50)
        if rows > min(self._shape.micro_batch_rows, 31):
            logits = logits + np.float32(self._batch_noise) * logits[::-1]
        if sequence in self.not_numbers:
            logits[0] = np.nan
        return logits


class Answers:
    """What came of some requests, by id and choice."""

    def __init__(self) -> None:
        self.texts: dict[tuple[int, int], list[str]] = {}
        self.tokens: dict[tuple[int, int], int] = {}
        self.logprobs: dict[tuple[int, int], list[TokenLogprob]] = {}
        self.done: dict[tuple[int, int], Done] = {}
        self.failed: dict[int, Failed] = {}

    def take(self, events: Sequence[Text | Done | Failed]) -> None:
        """Sort events in."""
        for event in events:
            match event:
                case Text():
                    assert (event.id, event.choice) not in self.done
                    self.texts.setdefault((event.id, event.choice), []).append(event.text)
                    self.tokens[event.id, event.choice] = self.tokens.get((event.id, event.choice), 0) + event.tokens
                    self.logprobs.setdefault((event.id, event.choice), []).extend(event.logprobs)
                case Done():
                    assert (event.id, event.choice) not in self.done
                    self.done[event.id, event.choice] = event
                case Failed():
                    self.failed[event.id] = event

    def text(self, number: int = 1, choice: int = 0) -> str:
        """All of one choice's text."""
        return "".join(self.texts.get((number, choice), []))


def run(engine: Engine, *requests: Generate) -> Answers:
    """Submit all requests and step until nothing is left to do."""
    answers = Answers()
    for request in requests:
        engine.submit(engine.prepare(request))
    while engine.busy:
        answers.take(engine.step())
    return answers


def after_prompt(prompt: bytes, answer: Sequence[int]) -> Callable[[tuple[int, ...]], int]:
    """A model that answers `prompt` with `answer` and then ends."""

    def next_token(history: tuple[int, ...]) -> int:
        position = len(history) - len(prompt)
        return answer[position] if 0 <= position < len(answer) else END

    return next_token
