"""Embeddings, asked by the official client: of the real model, of a made-up one, and through a second gateway."""

import base64
import struct
from typing import Any

import openai
import pytest
import pytest_asyncio

INPUTS = ["A cat sat on the mat.", "A kitten was sitting on a rug.", "Interest rates rose by a quarter of a percent."]


def _likeness(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local(start_shared_gateway: Any, default_model_path: Any) -> Any:
    """A gateway over the embedded model."""
    backend = {"use": "embedded", "model": str(default_model_path), "slots": 1, "context_tokens": 256, "threads": 1}
    return await start_shared_gateway({"backends": {"local": backend}})


@pytest.mark.model
@pytest.mark.asyncio(loop_scope="module")
class TestEmbeddedModel:
    """The vectors of the real model."""

    async def test_a_vector_for_each_text(self, local: Any) -> None:
        """Of length one, in order, the same for the same text; kindred texts are nearer than strangers."""
        answer = await local.openai().embeddings.create(model="any", input=INPUTS)
        vectors = [item.embedding for item in answer.data]
        assert [0, 1, 2] == [item.index for item in answer.data]
        assert all(abs(_likeness(vector, vector) - 1) < 1e-5 for vector in vectors)
        assert _likeness(vectors[0], vectors[1]) > _likeness(vectors[0], vectors[2])
        assert answer.usage.prompt_tokens == answer.usage.total_tokens > len(INPUTS)
        alone = await local.openai().embeddings.create(model="any", input=INPUTS[1])
        assert _likeness(alone.data[0].embedding, vectors[1]) > 0.9999

    async def test_every_form_of_input_and_output(self, local: Any) -> None:
        """Tokens, alone or several; numbers or base64; as many dimensions as there are."""
        ask = {"model": "any", "encoding_format": "float"}
        answer = await local.http.post("/v1/embeddings", json={**ask, "input": [[504, 2644], [504]]})
        plain = [item["embedding"] for item in answer.json()["data"]]
        assert 2 == len(plain)
        answer = await local.http.post(
            "/v1/embeddings", json={**ask, "input": [504, 2644], "encoding_format": "base64"}
        )
        raw = base64.b64decode(answer.json()["data"][0]["embedding"])
        assert plain[0] == pytest.approx(struct.unpack(f"<{len(raw) // 4}f", raw), abs=1e-4)
        whole = {**ask, "input": [504, 2644], "dimensions": len(plain[0])}
        answer = await local.http.post("/v1/embeddings", json=whole)
        assert plain[0] == pytest.approx(answer.json()["data"][0]["embedding"], abs=1e-4)

    async def test_it_is_on_the_ledger(self, local: Any) -> None:
        """With its operation and its tokens."""
        await local.openai().embeddings.create(model="any", input="one")
        row = (await local.rows())[-1]
        assert ("embedding", "ok", 0) == (row["operation"], row["status"], row["output_tokens"])
        assert row["prompt_tokens"] > 0

    @pytest.mark.parametrize(
        ("fields", "param", "code"),
        [
            ({"input": "word " * 300}, "input", "context_length_exceeded"),
            ({"input": "x", "dimensions": 8}, "dimensions", "invalid_value"),
            ({"input": [[10**6]]}, "input", "invalid_request"),
        ],
    )
    async def test_what_the_model_cannot_take(self, local: Any, fields: dict[str, Any], param: str, code: str) -> None:
        """A ``BadRequestError`` that names the field."""
        with pytest.raises(openai.BadRequestError) as caught:
            await local.openai().embeddings.create(model="any", **fields)
        assert (param, code) == (caught.value.body["param"], caught.value.body["code"])


async def test_it_is_passed_on(start_gateway: Any) -> None:
    """A second gateway hands request and answer through."""
    fake = await start_gateway({"backends": {"made-up": {"use": "fake"}}})
    upstream = {"use": "openai_compatible", "base_url": fake.url, "models": ["fake"]}
    front = await start_gateway({"backends": {"second": upstream}})
    answer = await front.openai().embeddings.create(model="fake", input=["a", "b"])
    assert [pytest.approx([0.6, 0.0, -0.8])] * 2 == [item.embedding for item in answer.data]
    assert answer.usage.prompt_tokens > 0
    assert "embedding" == (await front.rows())[-1]["operation"]
