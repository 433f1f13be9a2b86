"""Top-level fields by which other gateways let a body choose where it is sent and with which credentials.

Here the policy file alone decides that. Such a field is refused by name: dropped, it would surprise its sender; passed
on, it might move an upstream that is a gateway itself. What is nested inside other fields is data, and stays opaque.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.errors import InvalidRequest

TRANSPORT_FIELDS = frozenset(
    {
        "api_base",
        "api_key",
        "api_type",
        "api_version",
        "aws_access_key_id",
        "aws_bedrock_runtime_endpoint",
        "aws_region_name",
        "aws_role_name",
        "aws_secret_access_key",
        "aws_session_name",
        "aws_session_token",
        "aws_sts_endpoint",
        "aws_web_identity_token",
        "azure_ad_token",
        "azure_endpoint",
        "base_url",
        "custom_llm_provider",
        "default_headers",
        "endpoint_url",
        "extra_body",
        "extra_headers",
        "extra_query",
        "fallbacks",
        "headers",
        "litellm_credential_name",
        "litellm_params",
        "mock_response",
        "model_list",
        "organization",
        "proxies",
        "proxy",
        "user_config",
        "vertex_credentials",
        "vertex_location",
        "vertex_project",
    }
)

NAMES_ALLOWED: Mapping[str, Any] = {"propertyNames": {"not": {"enum": sorted(TRANSPORT_FIELDS)}}}
"""The same as a JSON schema says it."""


def refuse_transport_fields(names: Iterable[str]) -> None:
    """Lets a body pass that names none of them.

    Raises:
        InvalidRequest: with the field as ``param``.
    """
    named = TRANSPORT_FIELDS.intersection(names)
    if named:
        name = min(named)
        raise InvalidRequest(f"{name} is not accepted: where a request goes is not for its body to say", param=name)
