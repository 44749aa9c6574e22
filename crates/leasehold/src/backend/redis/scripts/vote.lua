-- vote.lua — one node's vote: give locks to owners that have not asked here before, all or none.
--
-- KEYS[5i-4]  lock i   KEYS[5i-3]  fence   KEYS[5i-2]  queue   KEYS[5i-1]  waiters   KEYS[5i]  held
--                      what they hold: common.lua; nobody queues where several nodes vote.
--                      Each lock is named once, at most 256 of them
-- ARGV[1]     step     µs that fencing tokens are seeded in: nodes whose clocks agree give the same
-- ARGV[7i-5]  owner    unique per attempt, ends in `;`
-- ARGV[7i-4]  mode     x exclusive, s shared
-- ARGV[7i-3]  limit    permits in all; 0 for readers, and for x
-- ARGV[7i-2]  weight   permits this owner takes; 1 for readers, and for x
-- ARGV[7i-1]  ttl      ms; at least the minimum hold
-- ARGV[7i]    hold     minimum hold in ms; 0 for none
-- ARGV[7i+1]  start    the slot from which on free ones are looked for
--
-- Returns  token               the one lock asked for is granted, held exclusively
--          {{token, slots}, ...}  all are granted; slots are empty but for permits
--          {held, ms, -1, 0, now, value, remaining, member, kind}
--                              as acquire.lua: who holds the first that is not to be had
--
-- Why a script: as acquire.lua. It is not that script, for two reasons: an owner that holds is not
-- granted again, since an attempt that is carried out twice can break the order of tokens; and a
-- counter that is missing is taken to be lost, and skips a step.

local function seed(time, last)
  local step = tonumber(ARGV[1])
  local micros = time[1] * 1000000 + time[2]
  local start = micros - micros % step
  if not last then start = start + step end
  return string.format('%.0f', math.min(math.max(start, (last or 0) + 1), 9007199254740992))
end

if #KEYS == 5 and ARGV[3] == 'x' and redis.call('EXISTS', KEYS[1]) == 0 then
  local token = seed(redis.call('TIME'), tonumber(redis.call('GET', KEYS[2]) or nil))
  redis.call('SET', KEYS[2], token)
  redis.call('SET', KEYS[1], ARGV[2] .. token, 'PX', ARGV[6])
  return token
end

-- include common.lua
-- include slots.lua

local RECHECK = 100
-- How much of a foreign value is shown.
local SHOWN = 2048

-- The other functions speak of the lock i from here on.
local function turn_to(i)
  local k = 5 * i
  lock, fence, queue, waiters, held = KEYS[k - 4], KEYS[k - 3], KEYS[k - 2], KEYS[k - 1], KEYS[k]
end

-- What is asked of the lock i, with its state, and whether it is to be had.
local function judge(i)
  turn_to(i)
  local a = 7 * i
  local want = { owner = ARGV[a - 5], mode = ARGV[a - 4], limit = tonumber(ARGV[a - 3]),
    weight = tonumber(ARGV[a - 2]), ttl = tonumber(ARGV[a - 1]), hold = tonumber(ARGV[a]),
    start = tonumber(ARGV[a + 1]) }
  local state = look()
  want.state = state
  if not fits(state, want) then return want, false end
  if state.kind == 'shared' and find_member(want.owner, want.weight, state) then
    return want, false
  end
  if want.limit > 0 then
    want.slots = choose(state, want)
    return want, want.slots ~= nil
  end
  return want, true
end

-- Who holds the lock spoken of, and when it can come free.
local function refuse(want)
  write_nothing()
  local state, ms = want.state, call('PTTL', lock)
  local shared = state.kind == 'shared'
  if shared and want.mode == 's' and want.limit == state.limit then
    ms = tonumber(call('ZRANGE', held, 0, 0, 'WITHSCORES')[2]) - now
  elseif state.kind == 'foreign' or state.kind == 'wrong' or ms < 0 then
    ms = RECHECK
  end
  local member = shared and call('ZREVRANGE', held, 0, 0, 'WITHSCORES') or {}
  return { 'held', math.max(ms, 1), -1, '0', now, string.sub(state.value, 1, SHOWN),
    member[2] and tonumber(member[2]) - now or call('PTTL', lock), member[1] or '', state.kind }
end

local wants, given = {}, {}
for i = 1, #KEYS / 5 do
  local want, is_free = judge(i)
  if not is_free then return refuse(want) end
  wants[i] = want
end
-- All counters first: what a full server refuses, it refuses at the first write.
for i, want in ipairs(wants) do
  turn_to(i)
  want.token = want.state.token
  if want.state.kind == 'free' then
    want.token = seed(time, tonumber(call('GET', fence) or nil))
    call('SET', fence, want.token)
  end
end
for i, want in ipairs(wants) do
  turn_to(i)
  seat(want.state, want.owner, want, want.token)
  given[i] = { want.token, want.slots or '' }
end
return given
