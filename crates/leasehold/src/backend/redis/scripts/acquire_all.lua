-- acquire_all.lua — take all of several locks, or none, without waiting.
--
-- KEYS[5i-4]  lock i   KEYS[5i-3]  fence   KEYS[5i-2]  queue   KEYS[5i-1]  waiters   KEYS[5i]  held
--                      what they hold: common.lua. Each lock is named once, at most 256 of them
-- ARGV[6i-5]  owner    new, ends in `;`
-- ARGV[6i-4]  mode     x exclusive, s shared
-- ARGV[6i-3]  limit    permits in all; 0 for readers, and for x
-- ARGV[6i-2]  weight   permits this owner takes; 1 for readers, and for x
-- ARGV[6i-1]  ttl      ms; at least the minimum hold
-- ARGV[6i]    hold     minimum hold in ms; 0 for none
--
-- Returns  {token, ...}  all granted, for a full ttl: the fencing token of each
--          0             one of them is held, or somebody waits for it: none was taken
--
-- Why a script: all must be found free, and taken, in one step. All are judged before the first is
-- written, and a fencing token that is not used does no harm: there is nothing to undo.

-- include common.lua

-- The other functions speak of the lock i from here on.
local function turn_to(i)
  local k = 5 * i
  lock, fence, queue, waiters, held = KEYS[k - 4], KEYS[k - 3], KEYS[k - 2], KEYS[k - 1], KEYS[k]
end

-- What is asked of the lock i, with its state and the fencing token for it; or nil when it is not
-- to be had, and the server's reason if that is why.
local function judge(i)
  turn_to(i)
  local a = 6 * i
  local want = { owner = ARGV[a - 5], mode = ARGV[a - 4], limit = tonumber(ARGV[a - 3]),
    weight = tonumber(ARGV[a - 2]), ttl = tonumber(ARGV[a - 1]), hold = tonumber(ARGV[a]) }
  local state, first = look(), nil
  if call('EXISTS', queue) == 1 then state, first = settle(state) end
  if first or not fits(state, want) then return nil end
  want.state, want.token = state, state.token
  if state.kind == 'free' then
    local reason
    want.token, reason = mint()
    if not want.token then return nil, reason end
  end
  return want
end

local wants = {}
for i = 1, #KEYS / 5 do
  local want, reason = judge(i)
  if reason then return redis.error_reply(reason) end
  if not want then
    -- A server that takes no writes, or a replica, proves nothing.
    write_nothing()
    return 0
  end
  wants[i] = want
end
local tokens = {}
for i, want in ipairs(wants) do
  turn_to(i)
  seat(want.state, want.owner, want, want.token)
  tokens[i] = want.token
end
return tokens
