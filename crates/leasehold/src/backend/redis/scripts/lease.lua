-- lease.lua — renewing the one lease that a script is about. It stands in each where
-- "include lease.lua" is, behind common.lua.
--
-- KEYS     common.lua
-- ARGV[1]  owner   unique per acquisition, ends in `;`
-- ARGV[2]  token   its fencing token
-- ARGV[3]  weight  permits it takes; 1 for readers, and for one that holds alone
-- ARGV[4]  ttl     ms that it is to live from now
--
-- Returns  nothing

local owner, token, weight, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local until_ms = now + ttl

-- As renew.lua and renew_shared.lua: r renewed, n not ours, m missing.
local function renew(state)
  if state.kind == 'free' then return 'm' end
  if state.token ~= token then return 'n' end
  if state.kind == 'exclusive' and state.owner == owner then
    if call('PTTL', lock) < ttl then call('PEXPIREAT', lock, int(until_ms)) end
    return 'r'
  end
  local member = state.kind == 'shared' and find_member(owner, weight, state, true)
  if not member then return 'n' end
  lengthen(member, until_ms)
  return 'r'
end
