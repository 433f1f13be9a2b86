import queue
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from embedded_engine import switchboard as module
from embedded_engine.frames import FrameReader, decode_from_engine, frame
from embedded_engine.messages import (
    Accepted,
    Cancel,
    Counted,
    CountTokens,
    Facts,
    FromEngine,
    Generate,
    Leave,
    Ping,
    Text,
    ToEngine,
)
from embedded_engine.switchboard import IDS_PER_LINE, Request, Switchboard

FACTS = Facts(queued=0, running=0, free_kv_tokens=8, steps=1, tokens_per_s=0.0, prefill_tokens_per_s=0.0)


class Recorder:
    """A receiver that says what it took, in order: messages, and numbers of lines that are gone."""

    def __init__(self) -> None:
        self.taken: queue.SimpleQueue[Request | Ping | int] = queue.SimpleQueue()

    def greeting(self) -> Sequence[FromEngine]:
        """Every line begins with this."""
        return [FACTS]

    def take(self, message: Request) -> None:
        """Records it."""
        self.taken.put(message)

    def pinged(self) -> None:
        """Records it."""
        self.taken.put(Ping())

    def hung_up(self, line: int) -> None:
        """Records it."""
        self.taken.put(line)

    def next(self) -> Request | Ping | int:
        """What came next."""
        return self.taken.get(timeout=10)


class Caller:
    """One end of a line, blocking."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        self.connection = connection
        self._frames = FrameReader()
        self._heard: list[FromEngine] = []

    def say(self, message: ToEngine) -> None:
        """Sends it."""
        self.connection.sendall(frame(message))

    def hear(self) -> FromEngine:
        """The next message; fails at the end."""
        while not self._heard:
            chunk = self.connection.recv(65536)
            assert chunk, "the line is closed"
            self._heard += map(decode_from_engine, self._frames.feed(chunk))
        return self._heard.pop(0)


class Exchange:
    """A switchboard at a listening socket, in a thread as in the engine's process."""

    def __init__(self, path: Path, *, grace_s: float) -> None:
        self.path = path
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(path))
        self.listening.listen(16)
        self.board = Switchboard(listening=self.listening, grace_s=grace_s)
        self.recorder = Recorder()
        self.codes: list[int] = []
        self.callers: list[Caller] = []
        self.thread = threading.Thread(target=lambda: self.codes.append(self.board.listen(self.recorder)))

    def call(self) -> Caller:
        """A new line, greeted."""
        connection = socket.socket(socket.AF_UNIX)
        caller = Caller(connection)
        self.callers.append(caller)
        connection.connect(str(self.path))
        assert FACTS == caller.hear()
        return caller

    def close(self) -> None:
        """Everybody leaves, which ends the switchboard."""
        for caller in self.callers:
            with suppress(OSError):  # some tests are hung up on
                caller.say(Leave())
            caller.connection.close()
        self.thread.join(10)
        assert [0] == self.codes
        self.listening.close()


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    """A switchboard with one caller, which waits for long for who broke off."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        exchange = Exchange(Path(folder) / "s", grace_s=1000.0)
        exchange.thread.start()
        exchange.call()
        yield exchange
        exchange.close()


def test_equal_numbers_of_two_callers_do_not_meet(exchange: Exchange) -> None:
    """Both ask under number 7, each gets its own answer under 7."""
    first, second = exchange.callers[0], exchange.call()
    requests = []
    for caller in (first, second):
        caller.say(CountTokens(id=7, text="x"))
        requests.append(exchange.recorder.next())
    assert all(isinstance(request, CountTokens) for request in requests)
    numbers = [request.id for request in requests if isinstance(request, CountTokens)]
    assert 2 == len(set(numbers))
    exchange.board.send([Counted(id=numbers[1], prompt_tokens=2), Counted(id=numbers[0], prompt_tokens=1)], [FACTS])
    assert [Counted(id=7, prompt_tokens=1), FACTS] == [first.hear(), first.hear()]
    assert [Counted(id=7, prompt_tokens=2), FACTS] == [second.hear(), second.hear()]


def test_a_ping_is_passed_on_in_its_turn(exchange: Exchange) -> None:
    """It asks for facts, which are for everybody: it needs no number."""
    caller = exchange.callers[0]
    caller.say(Cancel(id=1))
    caller.say(Ping())
    assert [Cancel(id=1), Ping()] == [exchange.recorder.next(), exchange.recorder.next()]


def test_what_a_caller_sends_stays_in_order_up_to_its_end(exchange: Exchange) -> None:
    """A request, its cancelling, and that the line is gone; what is sent to it after that is lost without harm."""
    caller = exchange.call()
    caller.say(Generate(id=1, text="x"))
    caller.say(Cancel(id=1))
    caller.connection.close()
    request, cancel, line = (exchange.recorder.next() for _ in range(3))
    assert isinstance(request, Generate)
    assert isinstance(cancel, Cancel)
    assert request.id == cancel.id
    assert line == request.id // IDS_PER_LINE
    exchange.board.send([Accepted(id=request.id, prompt_tokens=1)], [FACTS])
    assert FACTS == exchange.callers[0].hear()


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\x00", frame(Cancel(id=IDS_PER_LINE))])
def test_who_breaks_the_protocol_is_hung_up_on(exchange: Exchange, garbage: bytes) -> None:
    """Too long a frame, no message, a number out of range: that line is dropped, and no other."""
    caller = exchange.call()
    caller.connection.sendall(garbage)
    assert 1 == exchange.recorder.next()
    assert b"" == caller.connection.recv(1)
    exchange.callers[0].say(Cancel(id=1))
    assert Cancel(id=1) == exchange.recorder.next()


def test_who_reads_late_gets_everything(exchange: Exchange) -> None:
    """What a socket does not take at once waits for it, whole and in order."""
    caller = exchange.call()
    texts = [Text(id=IDS_PER_LINE + 1, choice=0, text=f"{number:06}" * 100, tokens=1) for number in range(2000)]
    for text in texts:
        exchange.board.send([text])
    heard = [caller.hear() for _ in texts]
    assert [text.text for text in texts] == [text.text for text in heard if isinstance(text, Text)]


def test_who_does_not_read_is_dropped_and_holds_nobody_up(exchange: Exchange) -> None:
    """Past the bound the line is cut; the others are served meanwhile."""
    exchange.call()
    text = Text(id=IDS_PER_LINE + 1, choice=0, text="x" * 2**16, tokens=1)
    for number in range(100):
        exchange.board.send([text, Text(id=1, choice=0, text=str(number), tokens=1)])
    heard = [exchange.callers[0].hear() for _ in range(100)]
    assert [str(number) for number in range(100)] == [text.text for text in heard if isinstance(text, Text)]
    assert 1 == exchange.recorder.next()


def test_there_is_an_end_to_the_lines(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than there may be is closed at once."""
    monkeypatch.setattr(module, "MAX_LINES", 1)
    with pytest.raises(AssertionError, match="the line is closed"):
        exchange.call()


def test_it_ends_at_once_when_the_last_one_has_left(exchange: Exchange) -> None:
    """Who says goodbye does not come back, however long it would be waited for."""
    exchange.callers[0].say(Leave())
    exchange.callers[0].connection.close()
    exchange.thread.join(10)
    assert [0] == exchange.codes


def test_it_waits_for_who_broke_off(exchange: Exchange) -> None:
    """Whoever comes within the time finds it as it was."""
    exchange.callers[0].connection.close()
    assert 0 == exchange.recorder.next()
    exchange.call().say(Cancel(id=1))
    assert Cancel(id=IDS_PER_LINE + 1) == exchange.recorder.next()


def test_it_does_not_wait_for_ever() -> None:
    """Without anybody it ends when its time is over."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        exchange = Exchange(Path(folder) / "s", grace_s=0.01)
        exchange.thread.start()
        exchange.close()


def test_instead_of_listening_it_can_tell_why_not() -> None:
    """All who have called hear it, and one who has hung up harms nobody."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        exchange = Exchange(Path(folder) / "s", grace_s=0.0)
        gone, waits = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        with exchange.listening, waits:
            gone.connect(str(exchange.path))
            gone.close()
            waits.connect(str(exchange.path))
            exchange.board.refuse(FACTS)
            exchange.board.listen(exchange.recorder)
            assert FACTS == Caller(waits).hear()


def test_its_own_line_is_the_only_one() -> None:
    """A line that was given from the start is greeted, heard, and its end is the end of all."""
    ours, theirs = socket.socketpair()
    board, recorder, caller, codes = Switchboard(own=theirs), Recorder(), Caller(ours), []
    thread = threading.Thread(target=lambda: codes.append(board.listen(recorder)))
    thread.start()
    assert FACTS == caller.hear()
    caller.say(Cancel(id=3))
    assert Cancel(id=3) == recorder.next()
    ours.close()
    thread.join(10)
    assert [0] == codes
