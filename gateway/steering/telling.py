"""A canary's trial in words, with its numbers."""

from gateway.rules.steer import Canary
from gateway.steering.canary import Arm, CanaryState, Standing


def told_of_trial(route: str, canary: Canary, standing: Standing) -> str:
    """One sentence on how the trial stands, and why."""
    who = f"canary {canary.name} of route {route}"
    arms = f"{_told_of_arm(standing.canary)} there, {_told_of_arm(standing.incumbent)} beside it"
    if standing.state is CanaryState.ROLLED_BACK:
        faults = [
            f"{name} (evidence {wealth:.3g} to 1, {standing.needed:.3g} suffice)"
            for name, wealth in (("success is rarer", standing.rarer), ("a success costs more", standing.dearer))
            if wealth >= standing.needed
        ]
        # Later verdicts may have taken back some of what spoke against it; a decision stays one.
        return f"{who} is rolled back: {' and '.join(faults) or 'it was worse when this was decided'}; {arms}"
    if standing.state is CanaryState.BETTER:
        done = "it is promoted" if canary.when_better == "promote" else "it may become a target"
        return f"{who} is better, {done}: a success costs less (evidence {standing.cheaper:.3g} to 1); {arms}"
    against = max(standing.rarer, standing.dearer)
    return f"{who} runs: evidence against it {against:.3g} to 1 of {standing.needed:.3g}; {arms}"


def _told_of_arm(arm: Arm) -> str:
    if arm.success_rate is None:
        return "no verdict yet"
    cost = arm.usd_per_success
    price = f", ${cost:.6f} a success" if cost is not None else ""
    return f"{arm.success_rate:.1%} of {arm.tasks:.0f} tasks{price}"
