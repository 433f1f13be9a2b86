from backends.embedded import Embedded
from backends.fake import Fake
from gateway.engine_page import engine_page


def test_engines_tell_of_themselves_and_other_backends_do_not() -> None:
    """In the order of the policy file; before it is ready, why it is not."""
    page = engine_page({"fake": Fake(), "local": Embedded(model="/secret/place/x.gguf")})
    assert "list" == page["object"]
    (engine,) = page["data"]
    assert ("engine", "local", "the engine is not started", None) == (
        engine["object"],
        engine["backend"],
        engine["down"],
        engine["now"],
    )
    assert "secret" not in str(page)


def test_a_gateway_without_engines_has_none() -> None:
    """An empty list, as OpenAI's clients like them."""
    assert {"object": "list", "data": []} == engine_page({"fake": Fake()})
