"""What translating a stream costs: CPU time for each event, beside the bytes that pass as they came.

Ways of the same answer of words, cut as networks cut it: chat, Messages and Ollama's chat passed through, and each
translated to or from a chat. Each figure is the best of several rounds, so that a busy machine tells in none of them.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.anthropic_reader import anthropic_reader
from gateway.wire.anthropic_writer import anthropic_writer
from gateway.wire.chat_reader import chat_reader
from gateway.wire.chat_writer import chat_writer
from gateway.wire.formats import FORMATS
from gateway.wire.ollama_reader import ollama_reader
from gateway.wire.ollama_writer import ollama_writer
from gateway.wire.openai_answer import StreamWriter
from gateway.wire.translation import ReaderOf, WriterOf

OUT = Path(__file__).parent / "out" / "translation.json"
TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
BODY = b'{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"q"}]}'


def request_of(operation: Operation) -> ChatRequest:
    """A streamed request of that format."""
    arrival = Arrival(id="r", operation=operation, tenant="t", received_s=0.0, received_unix_s=0.0, trace=TRACE)
    return FORMATS[operation].read(arrival, BODY)


def chat_stream(words: int) -> list[bytes]:
    """An answer of so many words, an event each."""
    writer = StreamWriter(Operation.CHAT, "id", "m", 1)
    said = [writer.text(0, f" word{number}") for number in range(words)]
    usage = writer.usage(Usage(prompt_tokens=9, output_tokens=words))
    return [writer.opening(0), *said, writer.finish(0, "stop"), usage, writer.done()]


def anthropic_stream(words: int) -> list[bytes]:
    """The same as Anthropic would send it."""
    reader, writer = chat_reader(True), anthropic_writer(request_of(Operation.MESSAGES), True)  # noqa: FBT003  # streamed
    stream = b"".join(writer.write(reader.feed(frame)) for frame in chat_stream(words))
    return [frame + b"\n\n" for frame in stream.split(b"\n\n")[:-1]]


def ollama_stream(words: int) -> list[bytes]:
    """The same as Ollama would send it, in lines."""
    reader, writer = chat_reader(True), ollama_writer(time.monotonic)(request_of(Operation.OLLAMA_CHAT), True)  # noqa: FBT003  # streamed
    stream = b"".join(writer.write(reader.feed(frame)) for frame in chat_stream(words))
    return [line + b"\n" for line in stream.splitlines()]


def passed(operation: Operation, pieces: list[bytes]) -> int:
    """Takes the one look at a stream that every answer gets; returns its bytes."""
    look = FORMATS[operation].stream(request_of(operation))
    return sum(len(look.feed(piece)) for piece in pieces)


def translated(operation: Operation, reader_of: ReaderOf, writer_of: WriterOf, pieces: list[bytes]) -> int:
    """Reads, writes and takes the look."""
    request = request_of(operation)
    reader, writer = reader_of(True), writer_of(request, True)  # noqa: FBT003  # streamed
    look = FORMATS[operation].stream(request)
    return sum(len(look.feed(writer.write(reader.feed(piece)))) for piece in pieces)


def best_us(work: Callable[[], int], rounds: int, events: int) -> float:
    """CPU microseconds for each event, of the best round."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times) / events * 1e6


def main() -> None:
    """Prints the table and writes it beside the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=1, help="events that come in one read")
    given = parser.parse_args()

    def cut(frames: list[bytes]) -> list[bytes]:
        return [b"".join(frames[at : at + given.batch]) for at in range(0, len(frames), given.batch)]

    chat, anthropic = cut(chat_stream(given.words)), cut(anthropic_stream(given.words))
    ollama, timed = cut(ollama_stream(given.words)), ollama_writer(time.monotonic)
    ways: dict[str, Callable[[], int]] = {
        "chat, passed": lambda: passed(Operation.CHAT, chat),
        "messages, passed": lambda: passed(Operation.MESSAGES, anthropic),
        "chat to messages": lambda: translated(Operation.MESSAGES, chat_reader, anthropic_writer, chat),
        "ollama, passed": lambda: passed(Operation.OLLAMA_CHAT, ollama),
        "chat to ollama": lambda: translated(Operation.OLLAMA_CHAT, chat_reader, timed, chat),
        "ollama to chat": lambda: translated(Operation.CHAT, ollama_reader, chat_writer, ollama),
        "messages to chat": lambda: translated(Operation.CHAT, anthropic_reader, chat_writer, anthropic),
    }
    figures = {name: round(best_us(work, given.rounds, given.words), 2) for name, work in ways.items()}
    for name, microseconds in figures.items():
        print(f"{name:<20} {microseconds:>7.2f} us CPU an event")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"batch": given.batch, "us_per_event": figures}, indent=1))


if __name__ == "__main__":
    main()
