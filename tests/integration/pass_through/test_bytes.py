"""What goes up and what comes down is what was sent, over both of our servers: forms, sound, codings, and breaks."""

import gzip
from typing import Any

import pytest

from tests.integration.pass_through.conftest import SOUND, Provider, chunk, head
from tests.integration.seams import SEAMS, choose_seam
from tests.loopback import Conversation, Received

TYPE = "multipart/form-data; boundary=WebAppBoundary"
FILE = bytes(range(256)) * 2000 + b"\r\n--WebAppBoundar\r\n"
FORM = (
    b'--WebAppBoundary\r\nContent-Disposition: form-data; name="file"; filename="\xc3\xa9.mp3"\r\n'
    b"Content-Type: audio/mpeg\r\n\r\n" + FILE + b"\r\n"
    b'--WebAppBoundary\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n'
    b'--WebAppBoundary\r\nContent-Disposition: form-data; name="future[]"\r\nX-Own: 1\r\n\r\n 1 \r\n'
    b"--WebAppBoundary--\r\n"
)
ASKED, MAPPED = FORM.replace(b"%b", b"ears"), FORM.replace(b"%b", b"whisper-1")
EARS = {"routes": {"ears": {"models": ["ears"], "targets": ["provider/whisper-1"]}}}
HEADERS = {"content-type": TYPE, "authorization": "Bearer sk-of-the-client", "cookie": "a=b"}


@pytest.fixture(params=SEAMS, autouse=True)
def _seam(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_seam(request.param, monkeypatch)


async def test_a_form_goes_up_with_nothing_but_its_model_replaced(open_front: Any, provider: Provider) -> None:
    """Its type goes with it, boundary and all; of the client's other headers none does."""
    front = await open_front(EARS)
    answer = await front.http.post("/v1/audio/transcriptions", content=ASKED, headers=HEADERS)
    assert 200 == answer.status_code
    assert provider.received.body == MAPPED
    sent = dict(provider.received.headers)
    assert (TYPE, "*/*", "identity") == (sent["content-type"], sent["accept"], sent["accept-encoding"])
    assert {"authorization", "cookie"}.isdisjoint(sent)


async def test_a_form_may_come_compressed_and_in_chunks(open_front: Any, provider: Provider) -> None:
    """The provider gets it plain, and told how long it is."""
    front = await open_front(EARS)
    coded = gzip.compress(ASKED)

    async def pieces() -> Any:
        for at in range(0, len(coded), 1000):
            yield coded[at : at + 1000]

    answer = await front.http.post(
        "/v1/audio/transcriptions", content=pieces(), headers={**HEADERS, "content-encoding": "gzip"}
    )
    assert 200 == answer.status_code
    assert provider.received.body == MAPPED
    assert "content-encoding" not in dict(provider.received.headers)


async def test_the_go_ahead_comes_before_a_long_form(open_front: Any, provider: Provider) -> None:
    """``Expect: 100-continue``, as curl sends it with files."""
    front = await open_front(EARS)
    client = await front.raw()
    start = "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\n"
    await client.send(f"{start}content-type: {TYPE}\r\ncontent-length: {len(ASKED)}\r\n\r\n".encode())
    assert 100 == (await client.head()).status
    await client.send(ASKED[:100_000], ASKED[100_000:])
    assert 200 == (await client.answer()).status
    assert provider.received.body == MAPPED


async def test_forms_have_a_limit_of_their_own(open_front: Any) -> None:
    """Larger than that of other bodies; what is over it is refused in OpenAI's envelope before it is read."""
    front = await open_front(EARS, max_body_bytes=4096, max_upload_bytes=len(ASKED))
    path = "/v1/audio/transcriptions"
    assert 200 == (await front.http.post(path, content=ASKED, headers=HEADERS)).status_code
    answer = await front.http.post(path, content=ASKED + b"\r\n", headers=HEADERS)
    assert (413, "request_too_large") == (answer.status_code, answer.json()["error"]["code"])
    speech = await front.http.post("/v1/audio/speech", json={"model": "tts-1", "input": "x" * 5000})
    assert 413 == speech.status_code


async def test_files_that_have_no_room_come_back_later(open_front: Any, provider: Provider, eventually: Any) -> None:
    """While others are held, for as long as their requests last."""
    front = await open_front(EARS, max_upload_bytes=2**20, max_uploads_held_bytes=900_000)

    async def never(_: Received, conversation: Conversation) -> None:
        await conversation.until_closed()

    provider.instead = never
    path, kind = "/v1/audio/transcriptions", f"content-type: {TYPE}\r\n"
    first = await front.raw()
    await first.post(ASKED, path=path, headers=kind)
    await eventually(lambda: provider.upstream.requests)
    second = await front.raw()
    await second.post(ASKED, path=path, headers=kind)
    answer = await second.answer()
    assert (503, "1", "overloaded") == (answer.status, answer.header("retry-after"), answer.json["error"]["code"])
    first.hang_up()
    await eventually(lambda: front.gateway.pipeline._bodies.held == 0)
    provider.instead = None
    assert 200 == (await front.http.post(path, content=ASKED, headers=HEADERS)).status_code


async def test_sound_that_breaks_off_is_cut_short(open_front: Any, provider: Provider) -> None:
    """No error is put into it: the connection ends in its middle, which is how a client knows."""
    front = await open_front()

    async def half(_: Received, conversation: Conversation) -> None:
        await conversation.send(head(200, {"content-type": "audio/mpeg", "transfer-encoding": "chunked"}))
        await conversation.send(chunk(SOUND[:100]))
        conversation.reset()

    provider.instead = half
    client = await front.raw()
    await client.post(b'{"model":"tts-1","input":"Hi."}', path="/v1/audio/speech")
    assert "audio/mpeg" == (await client.head()).header("content-type")
    assert b"%x\r\n%b\r\n" % (100, SOUND[:100]) == await client.until_closed()
    row = await front.row()
    assert ("truncated", 200, "UpstreamTruncated") == (row["status"], row["http_status"], row["error"])
    assert (45_000_000, "estimated_usage") == (row["cost_pico_usd"], row["attempts_made"][0]["cost_doubts"])


async def test_a_stream_that_breaks_off_is_told(open_front: Any, provider: Provider) -> None:
    """Events have a place for words."""
    front = await open_front()

    async def half(_: Received, conversation: Conversation) -> None:
        await conversation.stream(b'data: {"type":"speech.audio.delta","audio":"AA=="}\n\n', end=False)
        conversation.reset()

    provider.instead = half
    body = {"model": "gpt-4o-mini-tts", "input": "Hi.", "stream_format": "sse"}
    answer = await front.http.post("/v1/audio/speech", json=body)
    first, last = answer.text.strip().split("\n\n")
    assert 'data: {"type":"speech.audio.delta","audio":"AA=="}' == first
    assert '"upstream_truncated"' in last


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", ASKED),
        ("multipart/form-data; boundary=other", ASKED),
        (TYPE, ASKED[:1000]),
        (TYPE, b""),
        ("application/json", ASKED),
        ("text/plain", b"\xff"),
        ("application/json", b'{"file":1}'),
        ("application/json", b"[" * 10_000),
    ],
)
@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/images/edits"])
async def test_what_cannot_be_read_is_refused(open_front: Any, path: str, kind: str, body: bytes) -> None:
    """400 in OpenAI's envelope, whatever it is, and on the ledger."""
    front = await open_front(EARS)
    answer = await front.http.post(path, content=body, headers={"content-type": kind})
    assert (400, {"error"}) == (answer.status_code, set(answer.json()))
    assert ("rejected", 400) == ((await front.row())["status"], answer.status_code)
