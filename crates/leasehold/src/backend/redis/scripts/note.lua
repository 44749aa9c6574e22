-- note.lua — publish a holder's note about itself on one of several nodes, or take it back; and
-- lengthen its lease.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- KEYS[6]  notes     hash: holder -> its note. One counts only while its holder holds the lock
-- ARGV[1]  owner     unique per attempt, ends in `;`
-- ARGV[2]  ttl       ms that the lease is to live from now
-- ARGV[3]  slots     of permits: those that the majority gave (slots.lua); else empty
-- ARGV[4]  note      none: it is taken back
--
-- Returns  r         done, and the lease lives for a full ttl
--          n, m      not ours, missing: nothing changed
--
-- Why a script: a note must not be written by one that holds no more. It is not annotate.lua, for
-- here only the owner is compared, and its slots: extend.lua.

-- include common.lua

local owner, ttl, notes = ARGV[1], tonumber(ARGV[2]), KEYS[6]
local until_ms = now + ttl

write_nothing()
local state = look()
if state.kind == 'exclusive' and state.owner == owner then
  if call('PTTL', lock) < ttl then call('PEXPIREAT', lock, int(until_ms)) end
else
  local member = state.kind == 'shared' and find_member(owner, 1, state, true)
  if not member then return state.kind == 'free' and 'm' or 'n' end
  local _, _, _, slots = split_member(member)
  if ARGV[3] ~= '' and slots ~= ARGV[3] then return 'n' end
  lengthen(member, until_ms)
end
if not ARGV[4] then
  call('HDEL', notes, owner)
  return 'r'
end
-- What former holders left.
if state.kind == 'exclusive' then call('DEL', notes) end
call('HSET', notes, owner, ARGV[4])
if call('PTTL', notes) < ttl then call('PEXPIREAT', notes, int(until_ms)) end
return 'r'
