"""Two of schemathesis' checks, less what no document can say; the others hold as they are.

``schemathesis`` loads this file: see ``tests.openapi.hunt``.
"""

import re
from collections.abc import Callable
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

_BAD_REQUEST = 400
_FRACTION = re.compile(r"must be integer( or null)?, not number")


def _holds_a_fraction(body: Any, param: str | None) -> bool:
    """Whether a prompt of tokens has one with a decimal point."""
    if param not in {"input", "prompt"} or not isinstance(body, dict) or not isinstance(body.get(param), list):
        return False
    tokens = body[param]
    several = [token for one in tokens if isinstance(one, list) for token in one]
    return any(isinstance(token, float) for token in (*tokens, *several))


def _is_written_as_a_fraction(case: Any, problem: dict[str, Any]) -> bool:
    return _FRACTION.search(problem["message"]) is not None or _holds_a_fraction(case.body, problem.get("param"))


REFUSED_FOR: dict[str, Callable[[Any, dict[str, Any]], bool]] = {
    # Whether a route's backends can carry a field is for its policy file to say.
    "unsupported": lambda _, problem: (
        problem.get("code") == "unsupported_parameter" or "leave that out" in problem["message"]
    ),
    # Whole numbers are written without a fraction; JSON Schema takes 7.0 for an integer.
    "fraction": _is_written_as_a_fraction,
    # A schema compares no two fields: `best_of` must not be less than `n`.
    "best_of": lambda _, problem: problem.get("param") == "best_of",
    # A schema has no clock: an outcome is from no later than now.
    "future": lambda _, problem: problem.get("param") == "at",
    # A pattern cannot count: a budget names each measure once, tokens and steps as whole numbers.
    "budget": lambda _, problem: "x-headrace-task-budget must be" in problem["message"],
    # A schema compares no two items: each request of a batch has a name of its own, and is a request of its endpoint.
    "batch": lambda _, problem: str(problem.get("param")).startswith("requests["),
    # A document compares no two parameters: a page is either after something or before it.
    "page": lambda _, problem: problem.get("param") == "before_id",
    # What is there to say no: the document has no good answer of it.
    "never": lambda case, _: not any(status.startswith("2") for status in case.operation.responses.status_codes),
}
"""Why a request that the document allows may be answered 400, and how to know."""


@schemathesis.check
def takes_what_it_documents(ctx: Any, response: Any, case: Any) -> None:
    """``positive_data_acceptance``."""
    try:
        positive_data_acceptance(ctx, response, case)
    except RejectedPositiveData:
        if response.status_code != _BAD_REQUEST:
            raise
        said = response.json()["error"]
        problem = {"message": said} if isinstance(said, str) else said  # as Ollama has it
        if not any(known(case, problem) for known in REFUSED_FOR.values()):
            raise


@schemathesis.check
def refuses_what_it_does_not_document(ctx: Any, response: Any, case: Any) -> None:
    """``negative_data_rejection``; headers that a server does not know are none of its business (RFC 9110, 5.1)."""
    try:
        negative_data_rejection(ctx, response, case)
    except AcceptedNegativeData:
        if not any(name.lower().startswith("x-schemathesis-unknown") for name in case.headers or ()):
            raise
