-- acquire.lua — take the lock for an owner, or say who has it and, if asked to, wait in the queue.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- ARGV[1]  owner     unique per acquisition, ends in `;`
-- ARGV[2]  mode      x exclusive, s shared
-- ARGV[3]  limit     permits in all; 0 for readers, and for x
-- ARGV[4]  weight    permits this owner takes; 1 for readers, and for x
-- ARGV[5]  ttl       ms; at least the minimum hold
-- ARGV[6]  hold      minimum hold in ms; 0 for none
-- ARGV[7]  wait      1 to wait in the queue, 0 to try
-- ARGV[8]  channel   where the caller hears of a hand-off; empty if it cannot
-- ARGV[9]  patience  ms for which a waiter not heard from counts as alive
-- ARGV[10] ticket    that an earlier call was given, to keep the place; 0 for none
-- ARGV[11] seq       number of this call within the acquisition; a push repeats it
--
-- Returns  token                   granted, now or already, for a full ttl from this call on
--          {held, ms, place, ticket, now, value, remaining, member, kind}
--                                  not granted; place -1: not in the queue. ms: when something can
--                                  change without a push, 0 to call again. value (of a long one the
--                                  beginning), remaining ms, a shared member and the kind
--                                  (common.lua, look) say who holds it
--          {conflict, limit}       shared under another limit, and the caller only tries; or this
--                                  owner holds or waits in another mode
--          {ended}                 released by this owner before, and its minimum hold still runs
--
-- Why a script: fencing token, lock and queue must change in one step.
-- Interop: the lock is what SET NX PX clients write (redis-py, redlock, redsync), so they exclude
-- us and we them.

if ARGV[2] == 'x' and redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  local time = redis.call('TIME')
  local token = time[1] .. string.format('%06d', time[2])
  local last = tonumber(redis.call('SET', KEYS[2], token, 'GET') or 0) or 0
  if last >= tonumber(token) then
    token = string.format('%.0f', math.min(last + 1, 9007199254740992))
    redis.call('SET', KEYS[2], token)
  end
  redis.call('SET', KEYS[1], ARGV[1] .. token, 'PX', ARGV[5])
  return token
end

-- include common.lua

local MAX_QUEUE = 100000
-- How many of the first ask when the lock can come free.
local WATCHFUL = 4
-- How often to ask about a holder that will not tell when it goes.
local RECHECK = 100
-- More bytes than a value of ours has. A foreign one may be of any size, and is asked for often.
local SHOWN = 2048

local owner, waits, patience = ARGV[1], ARGV[7] == '1', tonumber(ARGV[9])
local want = { mode = ARGV[2], limit = tonumber(ARGV[3]), weight = tonumber(ARGV[4]),
  ttl = tonumber(ARGV[5]), hold = tonumber(ARGV[6]), channel = ARGV[8] }

local function conflict(limit, mode) return { 'conflict', mode == 'x' and 1 or limit } end

-- The answer to an owner that has something of this name already, else nil.
local function already(state)
  local until_ms = now + want.ttl
  if state.kind == 'exclusive' and state.owner == owner then
    if want.mode ~= 'x' then return conflict(1) end
    if call('PTTL', lock) < want.ttl then call('PEXPIREAT', lock, int(until_ms)) end
    return state.token
  end
  if state.kind == 'kept' and state.owner == owner then return { 'ended' } end
  if state.kind ~= 'shared' then return nil end
  local likely = state.limit == 0 and 1 or want.weight
  local member = find_member(owner, likely, state, want.hold > 0)
  if member then
    local _, weight = split_member(member)
    if want.mode ~= 's' or want.limit ~= state.limit or want.weight ~= weight then
      return conflict(state.limit)
    end
    lengthen(member, until_ms)
    return state.token
  end
  if find_member('~kept;' .. owner, likely, state) then return { 'ended' } end
end

-- A new ticket is above all others, whatever the clock says. An old one keeps its place, unless it
-- is from the future: then the clock was set back since.
local function draw_ticket()
  local last = call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2]
  local fresh = math.max(now_us, (tonumber(last or 0) or 0) + 1)
  local old = tonumber(ARGV[10]) or 0
  local ticket = old > 0 and math.min(old, fresh) or fresh
  while call('ZCOUNT', queue, int(ticket), int(ticket)) > 0 do ticket = ticket + 1 end
  return int(ticket)
end

-- Puts the caller into the queue, unless it is there already; the server's reason if it refuses.
local function enqueue()
  if call('ZSCORE', queue, owner) then
    write_nothing()
  elseif call('ZCARD', queue) < MAX_QUEUE then
    return refusal(try('ZADD', queue, draw_ticket(), owner))
  end
end

-- Counts the caller's patience anew, and notes when it will ask again: the first few when they
-- were told to, the others with their heartbeat, which is a third of their patience.
local function keep_waiting(rank, ms)
  local heartbeat = math.floor(patience / 3)
  want.alive, want.seq = now + patience, ARGV[11]
  want.asks = now + (rank < WATCHFUL and math.min(ms, heartbeat) or heartbeat)
  note(owner, want)
  -- The two end together, also where one of them was just made anew.
  if math.min(call('PTTL', queue), call('PTTL', waiters)) < patience then
    call('PEXPIREAT', queue, int(now + patience + 1))
    call('PEXPIREAT', waiters, int(now + patience + 1))
  end
end

-- Milliseconds until something can change without a push.
local function change_in(state)
  local first = call('ZRANGE', queue, 0, 0)[1]
  local ahead = first and first ~= owner and waiter(first) or nil
  local next_up = ahead or want
  local ms = opens(state, next_up) - now
  local silent = state.kind == 'free' or state.kind == 'foreign' or state.kind == 'wrong'
    or ms == math.huge or ahead and ahead.channel == '' or waits and want.channel == ''
  if silent then ms = ms > 0 and math.min(ms, RECHECK) or RECHECK end
  if ahead then ms = math.min(ms, ahead.alive - now) end
  return math.max(ms, 1)
end

local state = look()
local answer = already(state)
local queued = call('EXISTS', queue) == 1
if answer then
  forget(owner)
  if queued then settle(state) end
  return answer
end

local reason, first, left
if queued then
  local before = waiter(owner)
  if before and (before.mode ~= want.mode or before.limit ~= want.limit
      or before.weight ~= want.weight) then
    return conflict(before.limit, before.mode)
  end
  if waits then reason = enqueue() end
  state, first, left = settle(state, owner)
end
if (not first or first == owner) and fits(state, want) then
  local token = state.token
  if state.kind == 'free' then
    token, reason = mint()
    if not token then return redis.error_reply(reason) end
  end
  if first then forget(owner) end
  state = seat(state, owner, want, token)
  if first then settle(state) end
  return token
end

if not waits and state.kind == 'shared' and want.mode == 's' and want.limit ~= state.limit then
  return conflict(state.limit)
end
if not waits then
  reason = refusal(try('HDEL', waiters, ''))
elseif not queued then
  reason = enqueue()
end
-- A full server does not queue: the caller asks again. One that takes no writes proves nothing.
if reason and not string.find(reason, 'OOM', 1, true) then return redis.error_reply(reason) end

local ms = left == 'spent' and 0 or change_in(state)
local rank = call('ZRANK', queue, owner)
if waits and rank then keep_waiting(rank, ms) end
local member = state.kind == 'shared' and call('ZREVRANGE', held, 0, 0, 'WITHSCORES') or {}
return { 'held', ms, rank or -1, call('ZSCORE', queue, owner) or '0', now,
  string.sub(state.value, 1, SHOWN),
  member[2] and tonumber(member[2]) - now or call('PTTL', lock), member[1] or '', state.kind }
