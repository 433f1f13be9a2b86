"""Names of span attributes: OpenTelemetry's GenAI conventions where they have one, ``headrace.`` otherwise.

The conventions: https://github.com/open-telemetry/semantic-conventions-genai. Input tokens include cached ones.
"""

from typing import Final

ERROR_TYPE: Final = "error.type"
HTTP_STATUS: Final = "http.response.status_code"
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

REQUEST_ID: Final = "headrace.request.id"
TASK: Final = "headrace.task.id"
STAGE: Final = "headrace.task.stage"
TENANT: Final = "headrace.tenant"
ROUTE: Final = "headrace.route"
STATUS: Final = "headrace.status"
ATTEMPTS: Final = "headrace.attempts"
COST_USD: Final = "headrace.cost_usd"
ESTIMATED: Final = "headrace.usage.estimated"
FORECAST_PROMPT_TOKENS: Final = "headrace.forecast.prompt_tokens"
FORECAST_OUTPUT_TOKENS: Final = "headrace.forecast.output_tokens"
