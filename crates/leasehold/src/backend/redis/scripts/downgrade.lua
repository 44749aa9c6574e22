-- downgrade.lua — turn the lease of one that holds alone into a reader's, and let in the readers
-- that wait in front.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- ARGV[1]  owner     ARGV[2]  token     ARGV[3]  weight    ARGV[4]  ttl
--                    the lease: lease.lua
--
-- Returns  r         it is a reader's under the same fencing token, for a full ttl; or was before
--          n, m      not ours, missing: nothing changed
--
-- Why a script: nobody may come in between, and those who can share now must be told.

-- include common.lua
-- include lease.lua

write_nothing()
local state = look()
local queued = call('EXISTS', queue) == 1
local result = renew(state)
if result == 'r' and state.kind == 'exclusive' then
  local expiry = now + math.max(ttl, call('PTTL', lock))
  call('DEL', held)
  call('SET', lock, '~shared:0;' .. token, 'PXAT', int(expiry))
  call('ZADD', held, int(expiry), owner .. '1')
  follow_holders()
end
if queued then settle(look()) end
return result
