"""The accounts of limits in Redis or Valkey, for replicas on many machines."""

from collections.abc import Sequence

from gateway.limits.lender import LEASE_S, Grant, LenderLost, Need
from gateway.stores.redis import RedisStore
from gateway.stores.replica_store import StoreLost

_KEEP_MS = 3_600_000

# KEYS: an account each. ARGV: the replica, the lease in milliseconds, how long accounts stay after their window's end,
# then of each account the window's end in milliseconds, the limit, spent, taken, kept, need and wish. The arithmetic is
# that of ``gateway.limits.lender.grant``. A lease that is longer than any is from before the clock was set back, or of
# a server whose clock was ahead, and is shortened. What is no account, and what is no line, is thrown away: one of them
# would keep all limits from being told for ever. An account whose window has no end (or is over) ends with its lines.
_EXCHANGE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local replica, lease, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local answers = {}
for i = 1, #KEYS do
  local at = i * 7 - 3
  local ends, amount, spent = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local taken, kept = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local need, wish = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local claimed, replicas, allTaken, allSpent = 0, 1, 0, 0
  local lines = redis.pcall('HGETALL', KEYS[i])
  if lines.err then
    redis.call('DEL', KEYS[i])
    lines = {}
  end
  for j = 1, #lines, 2 do
    if lines[j] ~= replica then
      local granted, theirs, all, till = string.match(lines[j + 1], '(%d+) (%d+) (%d+) (%d+)')
      granted, theirs = tonumber(granted or 0), tonumber(theirs or 0)
      all, till = tonumber(all or 0), tonumber(till or 0)
      if till > now + lease then
        till = now + lease
        redis.call('HSET', KEYS[i], lines[j], string.format('%.0f %.0f %.0f %.0f', granted, theirs, all, till))
      end
      allSpent = allSpent + theirs
      if till > now then
        claimed, replicas = claimed + math.max(granted, all), replicas + 1
        allTaken = allTaken + all
      else
        claimed, allTaken = claimed + theirs, allTaken + theirs
        if theirs == 0 then redis.call('HDEL', KEYS[i], lines[j]) end
      end
    end
  end
  local free = math.max(amount - claimed - math.max(kept, taken), 0)
  local more = math.min(free, math.max(need, math.min(wish, math.floor(free / (2 * replicas)))))
  if need > 0 then taken = math.max(taken, kept + math.min(need, more)) end
  redis.call('HSET', KEYS[i], replica, string.format('%.0f %.0f %.0f %.0f', kept + more, spent, taken, now + lease))
  if ends - now > 4e10 or ends < now then ends = now + lease end
  redis.call('PEXPIREAT', KEYS[i], string.format('%.0f', ends + keep))
  answers[i] = {more, claimed, replicas, allTaken, allSpent}
end
return answers
"""


class RedisLender:
    """The ``Lender`` port on a store that all replicas share: each exchange is one script. The store is not its own."""

    trouble = ""

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        told: list[bytes | str | int] = [replica, int(LEASE_S * 1000), _KEEP_MS]
        for need in needs:
            told += (need.end_unix_s * 1000, need.amount, need.spent, need.taken, need.kept, need.need, need.wish)
        try:
            answers = await self._store.run(_EXCHANGE, [self._store.key(f"limit:{one.account}") for one in needs], told)
        except StoreLost as error:
            raise LenderLost(str(error)) from error
        return [Grant(*answer) for answer in answers]

    async def close(self) -> None:
        """See ``Lender``."""
