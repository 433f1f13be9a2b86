"""The client's exchange with guards before it: whatever the answer comes from, this is the last that it passes.

A whole answer, and a stream that a guard wants to see whole, waits for its guards. Another stream passes through
windows, each of which holds back as much as a match can be long. What does not pass ends as the client's format ends an
answer that a filter stopped; before anything was shown it is an error like others.
"""

from collections.abc import Sequence
from http import HTTPStatus

from gateway.errors import GuardBlocked, GuardSilent
from gateway.exchange import Exchange, RawHeaders, Through
from gateway.guard import CannotSay
from gateway.guarding.client_side import ClientSide
from gateway.guarding.hearing import Hearing
from gateway.guarding.spoken_texts import is_json, is_stream, spoken_texts
from gateway.guarding.stream_paths import Flowing, Holding, StreamPath
from gateway.guarding.unread_bytes import UnreadBytes
from gateway.guarding.whole_texts import AnswerTexts, WholeTexts, answer_texts, told_once
from gateway.rules.guards import GuardRule
from gateway.types import Operation
from gateway.wire.guarded_formats import STREAM_TEXTS, event_parser
from gateway.wire.places import DRAWS
from gateway.wire.responses_stream_texts import response_in
from gateway.wire.spoken_places import TRANSCRIBES
from gateway.wire.stream_texts import Passing

_MAY_BE_BYTES = TRANSCRIBES | DRAWS
_NO_TEXT = WholeTexts({}, (), unreadable="it is no text")


class GuardedAnswer(Through):
    """See ``gateway.exchange.Exchange``.

    ``refused`` is why an answer did not pass that came to its end otherwise, and ``cut`` tells that the client has the
    beginning of a stream that did not. ``finished`` is a response as the client got it, of formats that keep them.

    Args:
        exchange: the client's.
        rules: the guards that look at the answer.
        hearing: where they are heard.
    """

    def __init__(self, exchange: Exchange, rules: Sequence[GuardRule], hearing: Hearing) -> None:
        super().__init__(exchange)
        self.refused: GuardBlocked | GuardSilent | None = None
        self.finished: bytes | None = None
        self.holds = any(rule.stream == "hold" for rule in rules)
        self._rules = rules
        self._hearing = hearing
        self._client = ClientSide(exchange, hearing)
        self._parser = event_parser(self.operation)
        self._texts = STREAM_TEXTS[self.operation](self._hearing.request)
        self._path: StreamPath | None = None
        self._unread: UnreadBytes | None = None
        self._last: Passing | None = None

    @property
    def started(self) -> bool:
        """Whether the client has seen anything: what is held may still become another backend's answer."""
        return self._client.shown

    @property
    def streaming(self) -> bool:
        """See ``Exchange.streaming``."""
        return self._client.streaming

    @property
    def cut(self) -> bool:
        """Whether the client's stream was ended before its own end."""
        return self._client.cut

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange.answer``. What does not pass is ``refused``, and its backend did well all the same."""
        if status == HTTPStatus.OK:
            try:
                body = await self._heard(body, _content_type(headers))
            except (GuardBlocked, GuardSilent) as error:
                self.refused = error
                return
            self.finished = body
        await self._client.answer(status, headers, body)

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``; what another backend began before, and nobody saw, is forgotten."""
        self._client.begin(status, headers)
        self._path = self._unread = None
        if self.operation in _MAY_BE_BYTES and not is_stream(_content_type(headers)):
            self._unread = UnreadBytes(self._rules, self._hearing, self._client)
            return
        self._parser = event_parser(self.operation)
        self._texts = STREAM_TEXTS[self.operation](self._hearing.request)
        if self.holds:
            self._path = Holding(self._rules, self._hearing, self._client)
        else:
            self._path = Flowing(self._rules, self._hearing, self._client, self._texts)

    async def write(self, data: bytes) -> None:
        """See ``Exchange.write``. Raises as ``StreamPath.take`` does: who serves it need not go on."""
        if self._unread is not None:
            await self._unread.pour(data)
            return
        for event in self._parser.feed(data):
            passing = self._texts.passing(event)
            await self._opened.take(passing)
            self._last = passing

    async def close(self) -> None:
        """See ``Exchange.close``. What does not pass is ``refused``: its backend has come to its end."""
        try:
            await (self._unread or self._opened).end()
        except (GuardBlocked, GuardSilent) as error:
            self.refused = error
        else:
            if self._last is not None and self.operation is Operation.RESPONSE:
                self.finished = response_in(self._last.data)

    async def cut_short(self) -> None:
        """The stream broke, and somebody else will say so: what windows hold back of it goes out first."""
        if self._path is not None and not self.cut:
            await self._path.cut_short()

    @property
    def _opened(self) -> StreamPath:
        if self._path is None:
            raise RuntimeError("a stream is opened before it is written")
        return self._path

    async def _heard(self, body: bytes, content_type: str) -> bytes:
        """The body as it goes out."""
        if self.operation not in _MAY_BE_BYTES or is_json(body, content_type):
            body = told_once(body)
        texts = self._texts_of(body, content_type)
        for rule in self._rules:
            if texts.unreadable:
                self._hearing.unheard(rule, CannotSay(texts.unreadable))
                continue
            said = await self._hearing.on_answer(rule, texts.transcript.texts, body, streamed=False)
            if said is not None:
                body = texts.resaid(body, said)
                texts = self._texts_of(body, content_type)
        return body

    def _texts_of(self, body: bytes, content_type: str) -> AnswerTexts:
        if self.operation in TRANSCRIBES:
            return spoken_texts(body, content_type)
        if self.operation in DRAWS and not is_json(body, content_type):
            return _NO_TEXT
        return answer_texts(self.operation, body)


def _content_type(headers: RawHeaders) -> str:
    return next((value.decode("latin-1") for name, value in headers if name == b"content-type"), "")
