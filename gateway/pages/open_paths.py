"""The paths that no tenant's key is asked for."""

HOME, HEALTH, READY = "/", "/healthz", "/readyz"
PROBES = frozenset({HOME, HEALTH, READY})
"""What answers without a key: load balancers and orchestrators have none."""
METRICS = "/metrics"
"""What is the operator's to read: tenants' keys do not open it."""

PLAIN = "text/plain"
OPEN_METRICS = "application/openmetrics-text"
