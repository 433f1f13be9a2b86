"""What judges said, as counters: by route, judge and backend, all of them names of the policy file."""

from prometheus_client import CollectorRegistry

from gateway.judgement import JudgedAnswer, Occasion, in_a_word
from gateway.telemetry.label_names import LabelNames
from gateway.telemetry.tallies import Tally

TOGETHER = "all"
"""The judge that is all of them: what they say together."""


class JudgedTallies:
    """Counts judged answers. ``headrace_cost_usd`` has no shadows in it: they have a counter of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._verdicts = Tally(
            registry,
            "headrace_verdicts",
            "Answers that were judged.",
            ("route", "occasion", "judge", "backend", "verdict"),
        )
        self._escalations = Tally(
            registry, "headrace_escalations", "Steps of cascades that went further.", ("route", "backend", "reason")
        )
        self._shadow_usd = Tally(
            registry, "headrace_shadow_cost_usd", "US dollars of shadows, in no request's cost.", ("route", "backend")
        )
        self._skipped = Tally(
            registry, "headrace_judging_skipped", "Answers not judged, and copies not sent.", ("route", "reason")
        )

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """All of them."""
        return self._verdicts, self._escalations, self._shadow_usd, self._skipped

    def skip(self, route: str, reason: str, names: LabelNames) -> None:
        """Counts what was not done."""
        self._skipped.add((names.route(route), reason))

    def count(self, judged: JudgedAnswer, names: LabelNames) -> None:
        """Counts one."""
        route, backend = names.route(judged.route), names.backend(judged.backend)
        for judge, judgement in ((TOGETHER, judged.judgement), *judged.judgements):
            self._verdicts.add((route, judged.occasion.value, judge, backend, in_a_word(judgement)))
        if judged.escalated_for:
            self._escalations.add((route, backend, judged.escalated_for))
        if judged.occasion is Occasion.SHADOW and judged.cost_usd is not None:
            self._shadow_usd.add((route, backend), max(float(judged.cost_usd), 0.0))
