"""A server that is asked how busy it is: what of that is not ours counts for where requests go."""

from collections.abc import Callable
from typing import Any

from backends.openai_compatible import OpenAICompatible
from gateway.clock import SystemClock


async def test_requests_of_others_are_in_its_facts(
    serve: Any, surroundings: Callable[..., Any], eventually: Any
) -> None:
    """With ours, which are not counted twice; without any the facts stay the same object."""
    busy = [5]

    async def respond(request: Any, conversation: Any) -> None:
        if request.path == "/metrics":
            await conversation.answer(f"vllm:num_requests_running {busy[0]}\n".encode())
        else:
            await conversation.until_closed()

    async with serve(respond) as upstream:
        backend = OpenAICompatible(preset="vllm", base_url=upstream.url, models=("m",), load_every_s=0.01)
        quiet = backend.facts()
        await backend.start("b", surroundings(clock=SystemClock()))
        await eventually(lambda: backend.facts().in_flight == 5)
        assert backend.facts() is backend.facts()
        with backend._load.one_of_ours():
            assert 6 == backend.facts().in_flight
            busy[0] = 1
            await eventually(lambda: backend.facts() is quiet)
        await backend.close()


async def test_who_does_not_say_is_taken_to_be_quiet(
    serve: Any, surroundings: Callable[..., Any], eventually: Any
) -> None:
    """A server without the flag answers with an error; what it said before does not count for ever."""
    statuses = [200]

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b"llamacpp:requests_processing 3\n", status=statuses.pop(0) if statuses else 501)

    async with serve(respond) as upstream:
        backend = OpenAICompatible(preset="llama_server", base_url=upstream.url, models=("m",), load_every_s=0.01)
        await backend.start("b", surroundings(clock=SystemClock()))
        await eventually(lambda: backend.facts().in_flight == 3)
        await eventually(lambda: backend.facts().in_flight is None)
        await backend.close()
