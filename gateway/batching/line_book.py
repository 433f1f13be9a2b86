"""What became of a batch's lines: one row a result, and one for each line that has begun and has none yet."""

from collections.abc import AsyncIterator

from msgspec import Struct

from gateway.batching.batch import LineOutcome, Tokens
from gateway.stores.row_values import Value, fitting
from gateway.stores.tables import LedgerTables, Statement

MOST_AT_ONCE = 200
"""Rows that are read or written together."""

# Where the batch is another's now, the owner's name is NULL, and NULL is refused: a line has no second result.
_OURS = "(SELECT id FROM batches WHERE id = :batch_id AND owner = :owner)"
_RESULT = f"""
    INSERT INTO batch_lines (
        batch_id, line, outcome, input_tokens, cached_tokens, output_tokens, reasoning_tokens, body
    ) VALUES ({_OURS}, :line, :outcome, :input, :cached, :output, :reasoning, :body)
    ON CONFLICT (batch_id, line) DO NOTHING
"""  # noqa: S608  # our own names, here and below
_BEGIN = f"""
    INSERT INTO batch_tries (batch_id, line, request_id, begun_unix_s)
    VALUES ({_OURS}, :line, :request_id, :begun_unix_s)
    ON CONFLICT (batch_id, line) DO UPDATE SET request_id = excluded.request_id, begun_unix_s = excluded.begun_unix_s
"""  # noqa: S608
_END = "DELETE FROM batch_tries WHERE batch_id = :batch_id AND line = :line"
_TRIES = "SELECT line, request_id, begun_unix_s FROM batch_tries WHERE batch_id = :batch_id"
_DONE = "SELECT line FROM batch_lines WHERE batch_id = :batch_id AND line > :line ORDER BY line LIMIT 10000"
_RESULTS = """
    SELECT line, outcome, body FROM batch_lines
    WHERE batch_id = :batch_id AND line > :line ORDER BY line LIMIT :most
"""
_TOKENS = """
    SELECT CAST(coalesce(sum(input_tokens), 0) AS BIGINT), CAST(coalesce(sum(cached_tokens), 0) AS BIGINT),
        CAST(coalesce(sum(output_tokens), 0) AS BIGINT), CAST(coalesce(sum(reasoning_tokens), 0) AS BIGINT)
    FROM batch_lines WHERE batch_id = :batch_id
"""
_END_ALL = "DELETE FROM batch_tries WHERE batch_id = :batch_id"
_FORGET = ("DELETE FROM batch_lines WHERE batch_id = :batch_id", _END_ALL)


class Result(Struct, frozen=True, kw_only=True):
    """The one result of a line: ``body`` is the line of the output or error file, without its end."""

    line: int
    outcome: LineOutcome
    body: bytes
    tokens: Tokens = Tokens()


class Try(Struct, frozen=True):
    """A line that has begun, the id of its request, and when that was."""

    line: int
    request_id: str
    begun_unix_s: float


class LineBook:
    """The lines of one batch that ``owner`` runs.

    Raises:
        LedgerLost: from all of its methods, where the database is away, or the batch is another's now.
    """

    def __init__(self, tables: LedgerTables, batch_id: str, owner: str) -> None:
        self._tables = tables
        self._batch_id = batch_id
        self._owner = owner

    async def begin(self, line: int, request_id: str, now_unix_s: float) -> None:
        """A line is about to be sent."""
        begun = {**self._of(line), "request_id": request_id, "begun_unix_s": now_unix_s}
        await self._tables.write((_BEGIN, begun))

    async def put_back(self, line: int) -> None:
        """A line that had begun has not: what it took is on the ledger, and it is sent again."""
        await self._tables.write((_END, {"batch_id": self._batch_id, "line": line}))

    async def put_all_back(self) -> None:
        """The same for all that have begun."""
        await self._tables.write((_END_ALL, {"batch_id": self._batch_id}))

    async def end(self, *results: Result) -> None:
        """Lines have their results; what they had before stays."""
        await self._tables.write(*[statement for result in results for statement in self._ending(result)])

    async def tries(self) -> list[Try]:
        """What has begun and has no result."""
        return [Try(*row) for row in await self._tables.rows(_TRIES, batch_id=self._batch_id)]

    async def done(self) -> set[int]:
        """The lines that have a result."""
        lines: set[int] = set()
        last = 0
        while page := await self._tables.rows(_DONE, batch_id=self._batch_id, line=last):
            lines.update(int(row[0]) for row in page)
            last = int(page[-1][0])
        return lines

    async def results(self) -> AsyncIterator[tuple[LineOutcome, bytes]]:
        """All results, in the order of the lines."""
        last = 0
        asked: dict[str, Value] = {"batch_id": self._batch_id, "most": MOST_AT_ONCE}
        while page := await self._tables.rows(_RESULTS, line=last, **asked):
            for _, outcome, body in page:
                yield LineOutcome(outcome), bytes(body)
            last = int(page[-1][0])

    async def tokens(self) -> Tokens:
        """What all answers took."""
        ((taken, cached, output, reasoning),) = await self._tables.rows(_TOKENS, batch_id=self._batch_id)
        return Tokens(input=int(taken), cached=int(cached), output=int(output), reasoning=int(reasoning))

    def forgetting(self) -> list[Statement]:
        """What takes all of it away, for who puts it elsewhere together with that."""
        return [(statement, {"batch_id": self._batch_id}) for statement in _FORGET]

    def _of(self, line: int) -> dict[str, Value]:
        return {"batch_id": self._batch_id, "owner": self._owner, "line": line}

    def _ending(self, result: Result) -> list[Statement]:
        tokens = result.tokens
        told: dict[str, Value] = {
            "outcome": result.outcome.value,
            "input": fitting(tokens.input),
            "cached": fitting(tokens.cached),
            "output": fitting(tokens.output),
            "reasoning": fitting(tokens.reasoning),
            "body": result.body,
        }
        ended: Statement = (_END, {"batch_id": self._batch_id, "line": result.line})
        return [(_RESULT, {**self._of(result.line), **told}), ended]
