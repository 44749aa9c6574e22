-- give_up.lua — take the lock from its owner on one of several nodes.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- ARGV[1]  owner     unique per attempt, ends in `;`
-- ARGV[2]  channel   where those that wait listen; empty to tell nobody
-- ARGV[3]  news      what they are told
--
-- Returns  1         the owner held it
--          0         it did not
--
-- Why a script: the comparison and the deletion must be one step. A user without the right to
-- publish releases all the same, and those that wait find out by asking.

-- include common.lua

local owner, channel = ARGV[1], ARGV[2]

write_nothing()
local state = look()
local result = 0
if state.kind == 'exclusive' and state.owner == owner then
  call('DEL', lock)
  result = 1
elseif state.kind == 'shared' then
  local member = find_member(owner, 1, state, true)
  if member then
    call('ZREM', held, member)
    follow_holders()
    result = 1
  end
end
-- A permit given up can be taken although others are held.
local permit = state.kind == 'shared' and state.limit > 0
if result == 1 and (permit or call('EXISTS', lock) == 0) and channel ~= '' then
  try('PUBLISH', channel, ARGV[3])
end
return result
