-- annotate.lua — publish a holder's note about itself, or take it back; and renew its lease.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- KEYS[6]  notes     hash: holder -> its note. One counts only while its holder holds the lock
-- ARGV[1]  owner     ARGV[2]  token     ARGV[3]  weight    ARGV[4]  ttl
--                    the lease: lease.lua
-- ARGV[5]  note      none: it is taken back
--
-- Returns  r         done, and the lease lives for a full ttl
--          n, m      not ours, missing: nothing changed
--
-- Why a script: a note must not be written by one that holds no more.

-- include common.lua
-- include lease.lua

local notes = KEYS[6]

write_nothing()
local state = look()
local result = renew(state)
if result ~= 'r' then return result end
if ARGV[5] then
  -- What former holders left.
  if state.kind == 'exclusive' then call('DEL', notes) end
  call('HSET', notes, owner, ARGV[5])
  if call('PTTL', notes) < ttl then call('PEXPIREAT', notes, int(until_ms)) end
else
  call('HDEL', notes, owner)
end
return result
