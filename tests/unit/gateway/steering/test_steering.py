"""Decisions of routes that steer by success."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.rules.world import World
from gateway.steering.steering import Steering
from gateway.stores.memory import MemoryShared
from gateway.stores.sqlite_lender import SqliteLender
from gateway.task import Task
from gateway.types import Candidate, Context, Decision

DAY_S = 86_400.0
POLICY = """
    backends:
      alpha: {use: fake, models: [small]}
      beta: {use: fake, models: [small]}
      gamma: {use: fake, models: [small]}
    routes:
      chat: {models: ["*"], targets: [alpha/small, beta/small], cost: [money, success], worth: {usd_per_success: 1},
             %s}
"""


class Scene:
    """A route that steers, its candidates, and what clients say of their tasks."""

    def __init__(self, world: World, steering: Steering, make: dict[str, Any]) -> None:
        self.route = world.routes[0]
        self.steering = steering
        self.make = make
        self.tasks = 0
        steering.follow(world.routes)
        for trial in steering._lessons.trials.values():
            trial.begin(now_unix_s=1_000_000.0)

    def candidates(self, **fields: Any) -> tuple[Candidate, ...]:
        """One for each target."""
        return tuple(self.make["candidate"](backend=target.backend, **fields) for target in self.route.targets)

    def ctx(self, task: str = "", **fields: Any) -> Context:
        """A request, of a task where that is given."""
        request = self.make["request"]("hello", **fields)
        if task:
            request = replace(request, arrival=replace(request.arrival, task=Task(id=task)))
        ctx: Context = self.make["context"](request, usd_per_success=1.0)
        return ctx

    async def decide(self, task: str = "", **fields: Any) -> Decision:
        """Where a request goes."""
        return await self.steering.decide(self.route, self.ctx(task, **fields), self.candidates())

    def judge(self, backend: str, successes: int, failures: int, **fields: Any) -> None:
        """So many tasks of one request each."""
        for success in (True,) * successes + (False,) * failures:
            self.tasks += 1
            request = self.make["judged"](self.tasks, backend=backend, **fields)
            self.steering.judged(self.make["verdict"](request, success=success, task=f"judged-{self.tasks}"))


@pytest.fixture
def make_parts(make_candidate: Any, make_request: Any, make_context: Any, judged_request: Any, verdict: Any) -> Any:
    """What scenes are made of."""
    return {
        "candidate": make_candidate,
        "request": make_request,
        "context": make_context,
        "judged": judged_request,
        "verdict": verdict,
    }


@pytest.fixture
def make_scene(make_world: Any, make_parts: Any, hand_clock: Any) -> Callable[..., Scene]:
    """A scene over the policy with more on its route."""
    hand_clock.epoch_s = 1_000_000.0

    def make(route: str = "attempts: 3", gate: Gate | None = None) -> Scene:
        steering = Steering(clock=hand_clock, seat="a", gate=gate)
        return Scene(make_world(POLICY % route), steering, make_parts)

    return make


@pytest.fixture
def gate(tmp_path: Path, hand_clock: Any) -> Gate:
    """Keeps limits in a file."""
    return Gate(
        Borrower(SqliteLender(tmp_path / "limits", clock=hand_clock), replica="a", clock=hand_clock), clock=hand_clock
    )


def _first(decision: Decision) -> str:
    return decision.order[0].candidate.backend


async def test_it_goes_where_tasks_succeed(make_scene: Any) -> None:
    """A tenth of the tasks more is worth ten cents where a success is worth a dollar."""
    scene = make_scene()
    scene.judge("alpha", 50, 50)
    scene.judge("beta", 90, 10)
    decision = await scene.decide()
    assert "beta" == _first(decision)
    known = {bill.candidate.backend: bill.candidate.success for bill in decision.order}
    assert 0.9 == pytest.approx(known["beta"].mean, abs=0.02)
    assert known["beta"].low < 0.9 < known["beta"].high
    assert not known["beta"].drawn


async def test_another_word_on_a_task_takes_the_old_one_back(
    make_scene: Any, judged_request: Any, verdict: Any
) -> None:
    """However late: what is known is what the last words say."""
    scene, plain = make_scene(), make_scene()
    scene.judge("alpha", 5, 5)
    plain.judge("alpha", 4, 6)
    scene.steering.judged(
        verdict(judged_request(1, backend="alpha"), success=False, task="judged-1", revises=True, earlier=True)
    )
    told = [one.steering.report()["chat"]["chances"] for one in (scene, plain)]
    assert told[0] == told[1]


async def test_a_task_that_several_backends_answered_is_credited_to_all(
    make_scene: Any, judged_request: Any, verdict: Any
) -> None:
    """In equal parts; who did not answer has no part in it, and other routes are none of ours."""
    scene = make_scene()
    requests = (
        judged_request(1, backend="alpha"),
        judged_request(2, backend="beta"),
        judged_request(3, backend="beta", answered=False),
        judged_request(4, backend="beta", route="elsewhere"),
    )
    scene.steering.judged(verdict(*requests, success=True))
    told = {cell["backend"]: cell["tasks"] for cell in scene.steering.report()["chat"]["chances"]}
    assert {"alpha": 0.33, "beta": 0.33} == told
    assert 1.4 < scene.steering.report()["chat"]["requests_per_task"] < 3


async def test_a_backend_below_the_least_success_is_out(make_scene: Any) -> None:
    """With the numbers; one of which nothing is known is not."""
    scene = make_scene("least_success: 0.8")
    scene.judge("alpha", 40, 60)
    scene.judge("beta", 19, 1)
    decision = await scene.decide()
    (out,) = decision.excluded
    assert ("alpha", "least_success") == (out.candidate.backend, out.filter)
    assert "100 tasks" in out.reason
    assert "at least 80.0% are wanted" in out.reason


async def test_the_least_success_leaves_somebody(make_scene: Any) -> None:
    """The likeliest to succeed first; but nobody comes back who is out for another reason."""
    scene = make_scene("least_success: 0.9")
    scene.judge("alpha", 20, 180)
    scene.judge("beta", 100, 100)
    decision = await scene.decide()
    assert ["beta", "alpha"] == [bill.candidate.backend for bill in decision.order]
    assert () == decision.excluded
    alpha, beta = scene.candidates()
    ctx = scene.ctx()
    decision = await scene.steering.decide(scene.route, ctx, (alpha, replace(beta, down="cooling")))
    assert ["alpha"] == [bill.candidate.backend for bill in decision.order]
    assert ["healthy"] == [out.filter for out in decision.excluded]
    down = tuple(replace(one, down="cooling") for one in (alpha, beta))
    assert () == (await scene.steering.decide(scene.route, ctx, down)).order


# ---- exploring ------------------------------------------------------------------------------------------------------


async def test_without_a_budget_nobody_explores(make_scene: Any) -> None:
    """Where nothing keeps it, or it is nothing: all go where it seems best."""
    scene = make_scene("explore: {usd: 10, share: 1}")
    scene.judge("alpha", 3, 1)
    assert {"alpha"} == {_first(await scene.decide(request_id=f"r-{n}")) for n in range(50)}
    assert 0 == scene.steering.report()["chat"]["explored"]["requests"]


async def test_a_share_explores_and_pays_for_it(make_scene: Any, gate: Gate) -> None:
    """Some of it goes to the one of which little is known; the price is booked."""
    scene = make_scene("explore: {usd: 100, share: 0.5}", gate)
    scene.judge("alpha", 30, 10)
    first = [_first(await scene.decide(request_id=f"r-{n}")) for n in range(200)]
    explored = scene.steering.report()["chat"]["explored"]
    assert 10 < first.count("beta") < 100
    assert first.count("beta") == explored["requests"]
    (spent,) = gate.borrower.book.allowances()
    assert spent.spent / 1e9 == pytest.approx(explored["usd"], rel=1e-3)
    assert explored["usd"] > 0


async def test_the_same_task_explores_in_the_same_way(make_scene: Any, gate: Gate) -> None:
    """In all of its requests, and whenever the decision is made anew."""
    scene = make_scene("explore: {usd: 100, share: 1}", gate)
    scene.judge("alpha", 3, 1)
    drawn = {}
    for task in map(str, range(20)):
        decisions = [await scene.decide(task=task, request_id=f"r-{task}-{n}") for n in range(3)]
        drawn[task] = {
            tuple((bill.candidate.backend, bill.total_usd) for bill in decision.order) for decision in decisions
        }
    assert {1} == {len(orders) for orders in drawn.values()}
    assert len({next(iter(orders)) for orders in drawn.values()}) > 1


async def test_exploring_stops_when_the_budget_is_used_and_begins_anew(
    make_scene: Any, gate: Gate, hand_clock: Any
) -> None:
    """It is a limit in US dollars, as others are."""
    scene = make_scene("explore: {usd: 0.5, per: day, share: 1}", gate)
    scene.judge("alpha", 30, 10)
    scene.judge("beta", 2, 3)
    for n in range(300):
        await scene.decide(request_id=f"r-{n}")
    told = scene.steering.report()["chat"]["explored"]
    assert 0 < told["usd"] <= 0.5
    assert {"alpha"} == {_first(await scene.decide(request_id=f"s-{n}")) for n in range(50)}
    hand_clock.advance(DAY_S)
    await scene.decide()
    assert "beta" in {_first(await scene.decide(request_id=f"t-{n}")) for n in range(100)}


# ---- a canary -------------------------------------------------------------------------------------------------------


async def test_a_canary_gets_its_share_first_and_nothing_else(make_scene: Any) -> None:
    """Whatever it costs; the other tasks do not meet it, and are told why."""
    scene = make_scene("canary: {to: gamma/small, share: 0.2}")
    met = [await scene.decide(task=f"t-{n}") for n in range(400)]
    first = [_first(decision) for decision in met]
    assert 50 < first.count("gamma") < 110
    in_share = next(decision for decision in met if _first(decision) == "gamma")
    assert ["gamma", "alpha", "beta"] == [in_share.order[0].candidate.backend, *sorted(["alpha", "beta"])]
    other = next(decision for decision in met if _first(decision) != "gamma")
    assert "canary: 20.0% of the tasks go there, not this one" == other.excluded[0].reason


async def test_a_conversation_stays_with_its_arm(make_scene: Any) -> None:
    """As a task does, where requests name none."""
    scene = make_scene("canary: {to: gamma/small, share: 0.5}")
    for session in map(str, range(30)):
        arms = {_first(await scene.decide(session=session, request_id=f"{session}-{n}")) == "gamma" for n in range(4)}
        assert 1 == len(arms)


def _judge_arms(scene: Scene, make: Any, tasks: int) -> None:
    """Tasks that fail where they are the canary's, and succeed elsewhere."""
    for n in range(tasks):
        mine = next(iter(scene.steering._lessons.trials.values())).draws(f"acme\x1ftask\x1ft-{n}")
        request = make["judged"](n, backend="gamma" if mine else "alpha", received_unix_s=1_000_001.0)
        scene.steering.judged(make["verdict"](request, success=not mine, task=f"t-{n}"))


async def test_a_bad_canary_is_rolled_back_and_that_is_told(
    make_scene: Any, make_parts: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody meets it any more; the log and the report say why, with numbers."""
    scene = make_scene("canary: {to: gamma/small, share: 0.2}")
    _judge_arms(scene, make_parts, 100)
    decisions = [await scene.decide(task=f"t-{n}") for n in range(100)]
    assert "gamma" not in {_first(decision) for decision in decisions}
    assert {"canary: rolled back"} == {decision.excluded[0].reason for decision in decisions}
    (line,) = [record.getMessage() for record in caplog.records if "rolled back" in record.getMessage()]
    assert "success is rarer" in line
    told = scene.steering.report()["chat"]["canary"]
    assert "rolled_back" == told["state"]
    assert told["evidence"]["success_is_rarer"] >= told["evidence"]["needed_to_roll_back"]
    assert 0 == told["canary"]["success_rate"]


async def test_a_rolled_back_canary_stays_so_over_a_restart_and_for_other_replicas(
    make_scene: Any, make_parts: Any, hand_clock: Any
) -> None:
    """By its record, and by what replicas tell each other."""
    scene = make_scene("canary: {to: gamma/small, share: 0.2}")
    _judge_arms(scene, make_parts, 100)
    restarted, other = (
        Scene(scene_world, Steering(clock=hand_clock, seat=seat), make_parts)
        for seat, scene_world in (("b", _world_of(scene)), ("c", _world_of(scene)))
    )
    for _, record in scene.steering.learned():
        restarted.steering.resume(record)
    shared = MemoryShared(hand_clock)
    for one in (scene, other):
        one.steering.share(shared)
    scene.steering.meet()
    other.steering.meet()
    for one in (restarted, other):
        decisions = [await one.decide(task=f"t-{n}") for n in range(50)]
        assert "gamma" not in {_first(decision) for decision in decisions}
        assert one.steering.report()["chat"]["chances"] == scene.steering.report()["chat"]["chances"]


def _world_of(scene: Scene) -> Any:
    class OneRoute:
        routes = (scene.route,)

    return OneRoute()


async def test_tasks_from_before_the_trial_say_nothing_of_it(make_scene: Any, make_parts: Any) -> None:
    """Nobody was given to an arm then."""
    scene = make_scene("canary: {to: gamma/small, share: 0.2}")
    request = make_parts["judged"](1, backend="alpha", received_unix_s=999_999.0)
    scene.steering.judged(make_parts["verdict"](request, success=True))
    assert 0 == scene.steering.report()["chat"]["canary"]["incumbent"]["tasks"]


async def test_a_request_that_names_no_task_counts_for_the_arm_that_it_met(make_scene: Any, make_parts: Any) -> None:
    """Judges name it by its own id, though its conversation decided the arm."""
    scene = make_scene("canary: {to: gamma/small, share: 0.5}")
    first = [_first(await scene.decide(session=str(n), request_id=f"r-{n}")) for n in range(40)]
    for n, backend in enumerate(first):
        request = make_parts["judged"](n, id=f"r-{n}", backend=backend, received_unix_s=1_000_001.0)
        scene.steering.judged(make_parts["verdict"](request, success=True, task=f"r-{n}", source="json"))
    told = scene.steering.report()["chat"]["canary"]
    assert first.count("gamma") == told["canary"]["tasks"]
    assert 40 - first.count("gamma") == told["incumbent"]["tasks"]


async def test_a_trial_begins_with_the_first_task_that_meets_it(
    make_world: Any, make_parts: Any, hand_clock: Any
) -> None:
    """And goes on where it was after a restart, whenever the policy was read."""
    world = make_world(POLICY % "canary: {to: gamma/small, share: 0.5}")
    hand_clock.epoch_s = 1_000_000.0
    first, again = (Steering(clock=hand_clock, seat=seat) for seat in "ab")
    first.follow(world.routes)
    assert first.report()["chat"]["canary"]["since_unix_s"] is None
    route, request = world.routes[0], make_parts["request"]("hello")
    candidates = tuple(make_parts["candidate"](backend=target.backend) for target in route.targets)
    await first.decide(route, make_parts["context"](request), candidates)
    assert 1_000_000.0 == first.report()["chat"]["canary"]["since_unix_s"]
    hand_clock.advance(DAY_S)
    again.follow(world.routes)
    for _, record in first.learned():
        again.resume(record)
    await again.decide(route, make_parts["context"](request), candidates)
    assert 1_000_000.0 == again.report()["chat"]["canary"]["since_unix_s"]


async def test_one_lot_is_one_observation(make_scene: Any, make_parts: Any) -> None:
    """Judges see each answer of a task or a conversation; their arm was drawn once, so the first one speaks for all.

    The client's word on the task takes its place.
    """
    scene = make_scene("canary: {to: gamma/small, share: 0.5}")
    requests = [make_parts["judged"](n, received_unix_s=1_000_001.0) for n in range(3)]
    for request in requests:
        scene.steering.judged(make_parts["verdict"](request, success=True, task="t-1", source="json"))
    told = scene.steering.report()["chat"]
    assert 1 == told["canary"]["canary"]["tasks"] + told["canary"]["incumbent"]["tasks"]
    assert 3 == told["chances"][0]["tasks"]
    scene.steering.judged(make_parts["verdict"](*requests, success=False, task="t-1"))
    told = scene.steering.report()["chat"]
    arms = [told["canary"][arm] for arm in ("canary", "incumbent")]
    assert (1, 0) == (sum(arm["tasks"] for arm in arms), sum(arm["successes"] for arm in arms))
    assert (1, 2) == (told["chances"][0]["tasks"], told["requests_per_task"]), "of three requests, and one by belief"


async def test_answers_that_no_client_has_seen_teach_but_are_in_no_trial(make_scene: Any, make_parts: Any) -> None:
    """A shadow's backend becomes known before anybody meets it."""
    scene = make_scene("canary: {to: gamma/small, share: 0.5}")
    request = make_parts["judged"](1, backend="gamma", id="r-1/shadow", shown=False, received_unix_s=1_000_001.0)
    scene.steering.judged(make_parts["verdict"](request, success=True, task="r-1/shadow", source="json"))
    told = scene.steering.report()["chat"]
    assert ["gamma"] == [one["backend"] for one in told["chances"]]
    assert 0 == told["canary"]["canary"]["tasks"] + told["canary"]["incumbent"]["tasks"]


async def test_a_better_canary_is_promoted_where_the_policy_says_so(make_scene: Any, make_parts: Any) -> None:
    """It is a target as the others are from then on."""
    scene = make_scene("canary: {to: gamma/small, share: 0.4, when_better: promote}")
    for n in range(1500):
        mine = next(iter(scene.steering._lessons.trials.values())).draws(f"acme\x1ftask\x1ft-{n}")
        request = make_parts["judged"](n, backend="gamma" if mine else "alpha", received_unix_s=1_000_001.0)
        scene.steering.judged(make_parts["verdict"](request, success=mine or n % 2 == 0, task=f"t-{n}"))
    assert "better" == scene.steering.report()["chat"]["canary"]["state"]
    assert {"gamma"} == {_first(await scene.decide(task=f"u-{n}")) for n in range(30)}
    assert "it is promoted" in scene.steering.report()["chat"]["canary"]["why"]


async def test_a_route_that_does_not_steer_is_left_alone(make_world: Any, make_parts: Any, hand_clock: Any) -> None:
    """No chances, no bills, nothing learned."""
    scene = Scene(
        make_world((POLICY % "attempts: 3").replace(", success]", "]")),
        Steering(clock=hand_clock, seat="a"),
        make_parts,
    )
    scene.judge("alpha", 3, 3)
    decision = await scene.decide()
    assert {None} == {bill.candidate.success for bill in decision.order}
    assert not scene.steering.steers
    assert {} == scene.steering.report()
    assert [] == list(scene.steering.learned())
