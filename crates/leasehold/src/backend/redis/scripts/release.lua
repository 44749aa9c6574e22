-- release.lua — give up whatever an owner has of a name: the lock, a place in the queue, or both;
-- then hand the lock to the waiters that fit.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- KEYS[6]  notes     hash: holder -> its note
-- ARGV[1]  owner     unique per acquisition, ends in `;`
-- ARGV[2]  hold      minimum hold in ms, counted from the grant; 0 for none
--
-- Returns  1                released
--          2                released, and the name stays taken for the rest of the minimum hold
--          0                the owner did not hold it
--          {one of these, reason}   the same, and waiters that fit were left: the server's reason,
--                           or `spent` to call again because this call met too many dead ones
--
-- Why a script: the comparison, the deletion and the hand-off must be one step.

if ARGV[2] == '0' and redis.call('EXISTS', KEYS[3]) == 0 then
  local value = redis.pcall('GET', KEYS[1])
  if type(value) == 'string' and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1], KEYS[6])
    return 1
  end
end

-- include common.lua

local owner, hold = ARGV[1], tonumber(ARGV[2])

-- What is left of the minimum hold. Never more than all of it: the fencing token tells the time
-- of the grant, and may run ahead of a clock that was set back.
local function left(granted_ms)
  return math.min(hold, math.max(0, hold - (now - math.floor(granted_ms))))
end

local function give_up(state)
  if state.kind == 'exclusive' and state.owner == owner then
    local rest = left(tonumber(state.token) / 1000)
    call('DEL', KEYS[6])
    if rest > 0 then
      call('SET', lock, '~kept;' .. state.value, 'PXAT', int(now + rest))
      return 2
    end
    call('DEL', lock)
    return 1
  end
  if state.kind ~= 'shared' then return 0 end
  local member = find_member(owner, 1, state, true)
  if not member then return 0 end
  local _, weight, granted = split_member(member)
  call('ZREM', held, member)
  call('HDEL', KEYS[6], owner)
  local rest = left(granted or tonumber(state.token) / 1000)
  if rest > 0 then call('ZADD', held, int(now + rest), '~kept;' .. owner .. int(weight)) end
  follow_holders()
  return rest > 0 and 2 or 1
end

write_nothing()
local result = give_up(look())
if call('EXISTS', queue) == 0 then return result end
forget(owner)
local _, _, left = settle(look())
if left and left ~= 'again' then return { result, left } end
return result
