"""A gateway that is started again forecasts as it did before."""

from typing import Any

POLICY = "backends: {one: {use: fake, text: word, tokens: 700, models: [small]}}"


async def test_what_was_learned_is_there_after_a_restart(site: Any, make_exchange: Any) -> None:
    """Its answers of 700 tokens are expected at once; a gateway with another state directory would not know."""
    async with site.running(POLICY) as gateway:
        for _ in range(30):
            await gateway.pipeline.handle(make_exchange())
        [learner] = gateway.world.learners()
        before = list(learner.learned())
        assert 2 == len(before)
    async with site.running(POLICY) as gateway:
        [fresh] = gateway.world.learners()
        assert fresh is not learner
        assert before == list(fresh.learned())


async def test_a_reload_keeps_what_was_learned(site: Any, make_exchange: Any) -> None:
    """Though the routes have changed: those that forecast alike share one classifier, the old ones with the new."""
    async with site.running(POLICY) as gateway:
        await gateway.pipeline.handle(make_exchange())
        [learner] = gateway.world.learners()
        site.file.write_text(f"{POLICY}\nroutes: {{all: {{models: ['*'], targets: [one]}}}}")
        await gateway.reload()
        [kept] = gateway.world.learners()
        assert kept is learner
