-- give_up.lua — take the lock from its owner on one of several nodes.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- KEYS[6]  notes     hash: holder -> its note
-- ARGV[1]  owner     unique per attempt, ends in `;`
-- ARGV[2]  channel   where those that wait listen; empty to tell nobody
-- ARGV[3]  news      what they are told
-- ARGV[4]  hold      minimum hold in ms, counted from the grant; 0 for none
-- ARGV[5]  ran       ms since the grant, by the holder's clock; -1 if it does not know
--
-- Returns  1         released
--          2         released, and the name stays taken for the rest of the minimum hold
--          0         the owner did not hold it
--
-- Why a script: the comparison and the deletion must be one step. A user without the right to
-- publish releases all the same, and those that wait find out by asking.

-- include common.lua

-- Fencing tokens are seeded in steps of a second, so one tells the time of its grant only so far.
local STEP_MS = 1000
local owner, channel, hold, ran = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])

-- What is left of the minimum hold; rather more than less where nobody knows exactly.
local function left(granted_ms)
  local held_for = ran >= 0 and ran or now - math.floor(granted_ms)
  return math.min(hold, math.max(0, hold - held_for))
end

local function give_up(state)
  if state.kind == 'exclusive' and state.owner == owner then
    local rest = left(tonumber(state.token) / 1000 + STEP_MS)
    call('DEL', KEYS[6])
    if rest > 0 then
      call('SET', lock, '~kept;' .. state.value, 'PXAT', int(now + rest))
      return 2
    end
    call('DEL', lock)
    return 1
  end
  local member = state.kind == 'shared' and find_member(owner, 1, state, true)
  if not member then return 0 end
  local _, weight, granted, slots = split_member(member)
  call('ZREM', held, member)
  call('HDEL', KEYS[6], owner)
  local rest = left(granted or now)
  if rest > 0 then
    local kept = '~kept;' .. owner .. int(weight)
    call('ZADD', held, int(now + rest), slots ~= '' and kept .. '#' .. slots or kept)
  end
  follow_holders()
  return rest > 0 and 2 or 1
end

write_nothing()
local state = look()
local result = give_up(state)
-- A permit given up can be taken although others are held.
local permit = state.kind == 'shared' and state.limit > 0
if result == 1 and (permit or call('EXISTS', lock) == 0) and channel ~= '' then
  try('PUBLISH', channel, ARGV[3])
end
return result
