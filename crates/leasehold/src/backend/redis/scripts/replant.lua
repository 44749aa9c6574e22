-- replant.lua — give a lease again to a node that lost it, while a majority has it.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- ARGV[1]  owner     unique per attempt, ends in `;`
-- ARGV[2]  mode      x exclusive, s shared
-- ARGV[3]  limit     permits in all; 0 for readers, and for x
-- ARGV[4]  weight    permits it has; 1 for readers, and for x
-- ARGV[5]  token     the fencing token of the majority
-- ARGV[6]  ttl       ms
-- ARGV[7]  slots     of permits: those that the majority gave (slots.lua)
--
-- Returns  1         the owner holds here
--          0         another does
--
-- Why a script: the counter must be raised in the step that gives the lease, and first.

-- include common.lua
-- include slots.lua

-- What fencing tokens are seeded in, µs: vote.lua.
local STEP = 1000000
local owner, token = ARGV[1], ARGV[5]
local want = { mode = ARGV[2], limit = tonumber(ARGV[3]), weight = tonumber(ARGV[4]),
  ttl = tonumber(ARGV[6]), hold = 0, slots = ARGV[7] ~= '' and ARGV[7] or nil }

local state = look()
if state.kind == 'exclusive' and state.owner == owner then return 1 end
local member = state.kind == 'shared' and find_member(owner, want.weight, state, true)
if member then
  local _, _, _, slots = split_member(member)
  return slots == (want.slots or '') and 1 or 0
end
if not fits(state, want) or want.slots and not are_free(state, want.slots) then
  write_nothing()
  return 0
end
-- A counter that is missing is taken to be lost, as by vote.lua.
local last = tonumber(call('GET', fence) or nil) or now_us - now_us % STEP + STEP
local mine = tonumber(token)
call('SET', fence, int(math.max(last, mine)))
-- Who joins is given what stands here, and a writer may have come and gone since ours.
if state.kind == 'free' and want.mode == 's' and last > mine then
  token = int(last + 1)
  call('SET', fence, token)
end
seat(state, owner, want, state.token or token)
return 1
