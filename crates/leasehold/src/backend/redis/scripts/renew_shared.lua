-- renew_shared.lua — lengthen the leases of readers and permit holders, many in one call.
--
-- KEYS[2i-1]    lock     the locks
-- KEYS[2i]      held     zset: shared holder -> expiry in server milliseconds
-- KEYS[2n+1]    waiters  of the first of them: never changed
-- ARGV[4i-3]    phase    `~shared:<limit>;<fencing token>`, all that the lock i must hold
-- ARGV[4i-2]    owner    unique per acquisition, ends in `;`
-- ARGV[4i-1]    weight   permits it takes; 1 for readers
-- ARGV[4i]      ttl      ms that it is to live from now
--
-- Returns  one letter for each lock: r renewed, n not ours, m missing
--
-- Why a script: as renew.lua; and the lock must live as long as its longest holder. The member is
-- removed and added again, because a full server refuses the addition alone.

local call = redis.call
local time = call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)

local function int(number) return string.format('%.0f', number) end

-- Members by their owner, for each key that was searched: once, however many are asked for.
local known = {}

-- The member of `owner`: `<owner><weight>`, with more behind it under a minimum hold.
local function find(held, owner, weight)
  local likely = owner .. weight
  if call('ZSCORE', held, likely) then return likely end
  if not known[held] then
    known[held] = {}
    for _, member in ipairs(call('ZRANGE', held, 0, -1)) do
      known[held][string.match(member, '^.*;') or ''] = member
    end
  end
  return known[held][owner]
end

local function renew(lock, held, phase, owner, weight, ttl)
  local value = redis.pcall('GET', lock)
  -- A refusal for another reason than the type says nothing about the lease, and is the answer.
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    value = call('GET', lock)
  end
  if not value then return 'm' end
  if value ~= phase then return 'n' end
  call('ZREMRANGEBYSCORE', held, '-inf', '(' .. int(now))
  local member = find(held, owner, weight)
  if not member then return call('EXISTS', held) == 1 and 'n' or 'm' end
  if tonumber(call('ZSCORE', held, member)) < now + ttl then
    call('ZREM', held, member)
    call('ZADD', held, int(now + ttl), member)
    local last = call('ZREVRANGE', held, 0, 0, 'WITHSCORES')
    call('PEXPIREAT', lock, last[2])
    call('PEXPIREAT', held, last[2])
  end
  return 'r'
end

local answers = {}
for i = 1, (#KEYS - 1) / 2 do
  local a = 4 * i - 3
  answers[i] = renew(KEYS[2 * i - 1], KEYS[2 * i], ARGV[a], ARGV[a + 1], ARGV[a + 2],
    tonumber(ARGV[a + 3]))
end
-- Changes nothing, and fails on a replica: what one says without a write must neither end a lease
-- nor keep one.
local refused = redis.pcall('HDEL', KEYS[#KEYS], '')
-- One that could write found another type there, which is no concern of these leases.
if type(refused) == 'table' and not string.find(refused.err, 'WRONGTYPE', 1, true) then
  return refused
end
return table.concat(answers)
