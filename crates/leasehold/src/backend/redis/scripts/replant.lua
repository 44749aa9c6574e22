-- replant.lua — give a lease again to a node that lost it, while a majority has it.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- ARGV[1]  owner     unique per attempt, ends in `;`
-- ARGV[2]  mode      x exclusive, s shared by readers
-- ARGV[3]  token     the fencing token of the majority
-- ARGV[4]  ttl       ms
--
-- Returns  1         the owner holds here
--          0         another does
--
-- Why a script: the counter must be raised in the step that gives the lease, and first.

-- include common.lua

local owner, token = ARGV[1], ARGV[3]
local want = { mode = ARGV[2], limit = 0, weight = 1, ttl = tonumber(ARGV[4]), hold = 0 }

local state = look()
if state.kind == 'exclusive' and state.owner == owner then return 1 end
if state.kind == 'shared' and find_member(owner, 1, state) then return 1 end
if not fits(state, want) then
  write_nothing()
  return 0
end
local last = tonumber(call('GET', fence) or '0') or 0
if last < tonumber(token) then call('SET', fence, token) end
seat(state, owner, want, state.token or token)
return 1
