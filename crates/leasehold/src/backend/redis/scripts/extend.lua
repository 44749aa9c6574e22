-- extend.lua — lengthen leases on one of several nodes, many in one call.
--
-- KEYS[3i-2]    lock     the locks
-- KEYS[3i-1]    fence    the counters of their slots
-- KEYS[3i]      held     zset: shared holder -> expiry in server milliseconds
-- KEYS[3n+1]    waiters  of the first of them: never changed
-- ARGV[5i-4]    owner    unique per attempt, ends in `;`
-- ARGV[5i-3]    token    the fencing token of the majority
-- ARGV[5i-2]    ttl      ms that it is to live from now
-- ARGV[5i-1]    mode     x exclusive, s shared: one that held alone becomes a reader
-- ARGV[5i]      slots    of permits: those that the majority gave (slots.lua); else empty
--
-- Returns  one letter for each lock: r renewed, n not ours, m missing
--
-- Why a script: as renew.lua. Only the owner is compared, and its slots: it asks once, and a node
-- that voted late still has a fencing token of its own. The counter is raised too, so that the
-- majority's token spreads; a full server refuses that, and renews all the same.

local call = redis.call
local time = call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)

local function int(number) return string.format('%.0f', number) end

local function is_of(owner, text) return string.sub(text, 1, #owner) == owner end

local function find(held, owner)
  for _, member in ipairs(call('ZRANGE', held, 0, -1)) do
    if is_of(owner, member) then return member end
  end
end

-- A node may have given other permits than the majority did: they are none of this lease.
local function has(member, slots)
  return slots == '' or string.sub(member, -#slots - 1) == '#' .. slots
end

-- Others may read from now on, under the fencing token of the majority; or under more, where this
-- node has given more meanwhile: a writer may have come and gone before a request that was late.
local function become_reader(lock, fence, held, owner, token, ttl)
  local expiry = int(now + math.max(ttl, call('PTTL', lock)))
  -- First what a full server allows; then it allows the rest.
  call('HDEL', KEYS[#KEYS], '')
  call('DEL', held)
  local last = tonumber(call('GET', fence) or '0') or 0
  if last > tonumber(token) then
    token = int(last + 1)
    call('SET', fence, token)
  end
  call('SET', lock, '~shared:0;' .. token, 'PXAT', expiry)
  call('ZADD', held, expiry, owner .. '1')
  call('PEXPIREAT', held, expiry)
end

local function extend(lock, fence, held, owner, token, ttl, mode, slots)
  local value = redis.pcall('GET', lock)
  if not value then return 'm' end
  if type(value) ~= 'string' then return 'n' end
  if is_of(owner, value) then
    if mode == 's' then
      become_reader(lock, fence, held, owner, token, ttl)
    elseif call('PTTL', lock) < ttl then
      call('PEXPIRE', lock, ttl)
    end
    return 'r'
  end
  if not is_of('~shared:', value) then return 'n' end
  call('ZREMRANGEBYSCORE', held, '-inf', '(' .. int(now))
  local member = find(held, owner)
  if not member then return call('EXISTS', held) == 1 and 'n' or 'm' end
  if not has(member, slots) then return 'n' end
  if tonumber(call('ZSCORE', held, member)) < now + ttl then
    call('ZREM', held, member)
    call('ZADD', held, int(now + ttl), member)
    local last = call('ZREVRANGE', held, 0, 0, 'WITHSCORES')
    call('PEXPIREAT', lock, last[2])
    call('PEXPIREAT', held, last[2])
  end
  return 'r'
end

local answers, doubt = {}, false
for i = 1, (#KEYS - 1) / 3 do
  local k, a = 3 * i, 5 * i
  local token = ARGV[a - 3]
  answers[i] = extend(KEYS[k - 2], KEYS[k - 1], KEYS[k], ARGV[a - 4], token, tonumber(ARGV[a - 2]),
    ARGV[a - 1], ARGV[a])
  if answers[i] == 'r' then
    local last = tonumber(call('GET', KEYS[k - 1]) or '0') or 0
    if last < tonumber(token) then redis.pcall('SET', KEYS[k - 1], token) end
  else
    doubt = true
  end
end
-- Changes nothing, and fails on a replica: its word must not end a lease.
if doubt then call('HDEL', KEYS[#KEYS], '') end
return table.concat(answers)
