-- force.lua — end a lease that an operator has seen, tell its holder, and serve the queue.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- KEYS[6]  notes     hash: holder -> its note
-- ARGV[1]  observed  the owner, or the whole value of the lock
-- ARGV[2]  channel   of the client in the owner; empty for a foreign value
--
-- Returns  1         it was there, and is gone
--          0         something else is there, or nothing, or what is no lock
--
-- Why a script: what was seen must still be there in the step that deletes it.

-- include common.lua

local observed = ARGV[1]

-- Removes what was observed: whether it was there, and the owner to tell, who holds it no more.
local function remove(state)
  local whole = state.value == observed and state.kind ~= 'shared'
  if state.kind ~= 'free' and state.kind ~= 'wrong' and (whole or state.owner == observed) then
    call('DEL', lock, KEYS[6])
    return true, state.kind == 'exclusive' and state.owner
  end
  if state.kind ~= 'shared' then return false end
  for _, member in ipairs(call('ZRANGE', held, 0, -1)) do
    local owner = split_member(member)
    if owner == observed or owner == '~kept;' .. observed then
      call('ZREM', held, member)
      call('HDEL', KEYS[6], owner)
      follow_holders()
      return true, owner == observed and owner
    end
  end
  return false
end

write_nothing()
local done, victim = remove(look())
if victim and ARGV[2] ~= '' then try('PUBLISH', ARGV[2], 'revoked ' .. victim) end
if call('EXISTS', queue) == 1 then settle(look()) end
return done and 1 or 0
