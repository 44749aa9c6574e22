-- raise.lua — raise the counter of a node whose vote counted to the fencing token of the majority.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- ARGV[1]  owner     to whom the vote was given
-- ARGV[2]  token     the fencing token of the majority
--
-- Returns  1         the owner holds here, and the counter is at least that
--          0         the owner does not hold here any more: the vote is void
--
-- Why a script: a raise for an owner that has lost its place here would let a later holder have
-- the same fencing token.

-- include common.lua

local owner, token = ARGV[1], ARGV[2]

local function counter() return tonumber(call('GET', fence) or '0') or 0 end

local state = look()
local here = state.kind == 'exclusive' and state.owner == owner
if state.kind == 'shared' then here = find_member(owner, 1, state, true) ~= nil end
if not here then
  write_nothing()
  return 0
end
if counter() < tonumber(token) then call('SET', fence, token) end
if tonumber(state.token) < tonumber(token) then
  local value = state.kind == 'shared' and '~shared:' .. int(state.limit) .. ';' or owner
  call('SET', lock, value .. token, 'KEEPTTL')
end
return 1
