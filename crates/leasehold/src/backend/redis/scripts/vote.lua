-- vote.lua — one node's vote: give the lock to an owner that has not asked here before.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua; nobody queues where several nodes vote
-- ARGV[1]  owner     unique per attempt, ends in `;`
-- ARGV[2]  mode      x exclusive, s shared by readers
-- ARGV[3]  ttl       ms
-- ARGV[4]  step      µs that fencing tokens are seeded in: nodes whose clocks agree give the same
--
-- Returns  token     granted
--          {held, ms, -1, 0, now, value, remaining, member, kind}
--                    as acquire.lua: who holds it
--
-- Why a script: as acquire.lua. It is not that script, for two reasons: an owner that holds is not
-- granted again, since an attempt that is carried out twice can break the order of tokens; and a
-- counter that is missing is taken to be lost, and skips a step.

local function seed(time, last)
  local step = tonumber(ARGV[4])
  local micros = time[1] * 1000000 + time[2]
  local start = micros - micros % step
  if not last then start = start + step end
  return string.format('%.0f', math.min(math.max(start, (last or 0) + 1), 9007199254740992))
end

if ARGV[2] == 'x' and redis.call('EXISTS', KEYS[1]) == 0 then
  local token = seed(redis.call('TIME'), tonumber(redis.call('GET', KEYS[2]) or nil))
  redis.call('SET', KEYS[2], token)
  redis.call('SET', KEYS[1], ARGV[1] .. token, 'PX', ARGV[3])
  return token
end

-- include common.lua

local RECHECK = 100
-- How much of a foreign value is shown.
local SHOWN = 2048
local owner = ARGV[1]
local want = { mode = ARGV[2], limit = 0, weight = 1, ttl = tonumber(ARGV[3]), hold = 0 }

local state = look()
if fits(state, want) and not (state.kind == 'shared' and find_member(owner, 1, state)) then
  local token = state.token
  if state.kind == 'free' then
    token = seed(time, tonumber(call('GET', fence) or nil))
    call('SET', fence, token)
  end
  seat(state, owner, want, token)
  return token
end

write_nothing()
local ms = call('PTTL', lock)
if state.kind == 'foreign' or state.kind == 'wrong' or ms < 0 then ms = RECHECK end
local member = state.kind == 'shared' and call('ZREVRANGE', held, 0, 0, 'WITHSCORES') or {}
return { 'held', math.max(ms, 1), -1, '0', now, string.sub(state.value, 1, SHOWN),
  member[2] and tonumber(member[2]) - now or call('PTTL', lock), member[1] or '', state.kind }
