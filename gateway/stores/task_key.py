"""A task as one number: what reports count by, since a million pairs of texts take them three times as long."""

from hashlib import blake2b


def task_key(tenant: str, task: str) -> int:
    """64 bits of the tenant and the task's id: two of a million tasks are taken for one once in 40 million reports."""
    digest = blake2b(f"{tenant}\0{task}".encode("utf-8", "replace"), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)
