-- common.lua — what the scripts share. It stands in each where "include common.lua" is, behind
-- the fast path, because defining functions costs more than granting a lock.
--
-- KEYS[1]  lock     string: exclusive `<owner><fencing token>`, shared `~shared:<limit>;<fencing
--                   token>`, minimum hold after a release `~kept;<old value>`, or not ours.
--                   It exists exactly while the name is held
-- KEYS[2]  fence    string: the last fencing token given in this slot; never expires
-- KEYS[3]  queue    zset: waiting owner -> ticket
-- KEYS[4]  waiters  hash: waiting owner -> what it asks for
-- KEYS[5]  held     zset: shared holder -> expiry in server milliseconds; counts only while the
--                   lock has the shared form
-- ARGV     of the script it stands in
--
-- Returns  nothing
--
-- Why like this: an owner ends in `;`, so what follows it can be told apart. Numbers go through
-- int(), for tostring() loses digits. Time is read once, so that all expiries agree.

local lock, fence, queue, waiters, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call, try = redis.call, redis.pcall
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
-- Waiters dropped or granted per call, so that no call takes long.
local budget = 64
-- Channels that were found without a receiver in this call.
local deaf = {}

local function int(number) return string.format('%.0f', number) end

local function refusal(reply) return type(reply) == 'table' and reply.err or nil end

-- Changes nothing. It fails on a replica, whose answers prove nothing, and after it a full server
-- allows the writes that follow.
local function write_nothing() call('HDEL', waiters, '') end

-- `<owner><number>` in two, or nil when the text has another form.
local function split(text)
  local owner, number = string.match(text, '^(%w+;%w+;[^;]*/%d+;[^;]*;)(%d+)$')
  if owner and string.find(owner, ';', 1, true) == 27 then return owner, number end
end

-- A shared holder: `<owner><weight>`, with `@<granted, ms>` behind it under a minimum hold, and
-- `#<slots>` where several nodes vote (slots.lua); while only its minimum hold runs,
-- `~kept;<owner><weight>`.
local function split_member(member)
  local owner, weight, granted, slots = string.match(member, '^(.*;)(%d+)@?(%d*)#?([%d,-]*)$')
  return owner, tonumber(weight), tonumber(granted), slots
end

-- The member of `owner`, found at once when it has this weight and no minimum hold; otherwise
-- among all, if those are known already or `search` says so.
local function find_member(owner, weight, state, search)
  local likely = owner .. int(weight)
  if call('ZSCORE', held, likely) then return likely end
  for _, member in ipairs(state.members or search and call('ZRANGE', held, 0, -1) or {}) do
    if split_member(member) == owner then return member end
  end
end

-- The lock and its shared holders live as long as the longest of them; none left, nothing left.
local function follow_holders()
  local last = call('ZREVRANGE', held, 0, 0, 'WITHSCORES')
  if last[1] then
    call('PEXPIREAT', lock, last[2])
    call('PEXPIREAT', held, last[2])
  else
    call('DEL', lock, held)
  end
end

-- Lengthens the lease of a shared holder, and never shortens it. Removed and added again, because a
-- full server refuses the addition alone.
local function lengthen(member, until_ms)
  if tonumber(call('ZSCORE', held, member)) >= until_ms then return end
  call('ZREM', held, member)
  call('ZADD', held, int(until_ms), member)
  follow_holders()
end

-- What the name is now: kind free, exclusive, shared, kept, foreign or wrong.
local function look()
  local value = try('GET', lock)
  if refusal(value) then
    -- Any other refusal says nothing about the lock, and is the answer.
    if not string.find(value.err, 'WRONGTYPE', 1, true) then call('GET', lock) end
    return { kind = 'wrong', value = '' }
  end
  if not value then return { kind = 'free', value = '' } end
  local limit, token = string.match(value, '^~shared:(%d+);(%d+)$')
  if limit then
    call('ZREMRANGEBYSCORE', held, '-inf', '(' .. int(now))
    local state = { kind = 'shared', value = value, limit = tonumber(limit), token = token,
      used = call('ZCARD', held) }
    if state.used == 0 then
      call('DEL', lock, held)
      return { kind = 'free', value = '' }
    end
    if state.limit > 0 then
      state.used = 0
      state.members = call('ZRANGE', held, 0, -1)
      for _, member in ipairs(state.members) do
        local _, weight = split_member(member)
        state.used = state.used + (weight or 1)
      end
    end
    return state
  end
  local kept = string.match(value, '^~kept;(.*)$')
  local owner, number = split(kept or value)
  if owner then
    return { kind = kept and 'kept' or 'exclusive', value = value, owner = owner, token = number }
  end
  return { kind = 'foreign', value = value }
end

local function fits(state, want)
  if state.kind == 'free' then return true end
  return state.kind == 'shared' and want.mode == 's' and state.limit == want.limit
    and (want.limit == 0 or state.used + want.weight <= want.limit)
end

-- A new fencing token as text, or nil and the server's reason why not.
local function mint()
  local last = try('GET', fence)
  if refusal(last) then return nil, last.err end
  local token = math.max(now_us, (tonumber(last or 0) or 0) + 1)
  local text = int(math.min(token, 9007199254740992))
  local reply = try('SET', fence, text)
  if refusal(reply) then return nil, reply.err end
  return text
end

-- Writes a grant that fits, under a fencing token that was given; the state afterwards.
local function seat(state, owner, want, token)
  local expiry = int(now + want.ttl)
  if want.mode == 'x' then
    call('SET', lock, owner .. token, 'PXAT', expiry)
    return { kind = 'exclusive', value = owner .. token, owner = owner, token = token }
  end
  if state.kind == 'free' then
    local value = '~shared:' .. int(want.limit) .. ';' .. token
    call('DEL', held)
    call('SET', lock, value, 'PXAT', expiry)
    state = { kind = 'shared', value = value, limit = want.limit, token = token, used = 0 }
  end
  local member = owner .. int(want.weight)
  if want.hold > 0 then member = member .. '@' .. int(now) end
  if want.slots then member = member .. '#' .. want.slots end
  call('ZADD', held, expiry, member)
  follow_holders()
  state.used = state.used + want.weight
  return state
end

-- Notes what a waiter asks for: until when it counts as alive, the number of its last call, and
-- when it will ask again by itself. The channel is last, for it may hold anything.
local function note(owner, want)
  call('HSET', waiters, owner, table.concat({ want.mode, int(want.limit), int(want.weight),
    int(want.ttl), int(want.hold), int(want.alive), want.seq, int(want.asks), want.channel }, '|'))
end

local function waiter(owner)
  local text = call('HGET', waiters, owner) or ''
  local mode, limit, weight, ttl, hold, alive, seq, asks, channel =
    string.match(text, '^([xs])|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(.*)$')
  if not mode then return nil end
  return { mode = mode, limit = tonumber(limit), weight = tonumber(weight), ttl = tonumber(ttl),
    hold = tonumber(hold), alive = tonumber(alive), seq = seq, asks = tonumber(asks),
    channel = channel }
end

local function forget(owner)
  call('ZREM', queue, owner)
  call('HDEL', waiters, owner)
end

-- Grants to the waiter and tells it, or drops it if nobody listens. The state afterwards; and the
-- server's reason when it refused: then the lock stays free and the waiter first.
-- The grant is written only once somebody has heard of it, so there is nothing to undo.
local function hand_over(state, owner, want)
  local token, reason = state.token, nil
  if state.kind == 'free' then
    token, reason = mint()
    if not token then return state, reason end
  else
    write_nothing()
  end
  local name = string.match(held, '}~held:(.*)$')
  local news = table.concat({ 'granted', token, want.seq, owner, name }, ' ')
  local heard = try('PUBLISH', want.channel, news)
  if refusal(heard) then return state, heard.err end
  forget(owner)
  if heard == 0 then
    deaf[want.channel] = true
    return state
  end
  return seat(state, owner, want, token)
end

-- When the lock can change hands for one that wants this, in server ms, if nobody tells anything.
local function opens(state, want)
  if state.kind == 'free' then return now end
  if state.kind == 'shared' and want.mode == 's' and want.limit == state.limit then
    return tonumber(call('ZRANGE', held, 0, 0, 'WITHSCORES')[2])
  end
  -- PTTL counts from the time that it is, not from when the script began.
  local clock, left = call('TIME'), call('PTTL', lock)
  return left < 0 and math.huge or math.floor(clock[1] * 1000 + clock[2] / 1000) + left
end

-- Serves the queue from its head, up to `caller`, whom the reply serves. Returns the state, the
-- first waiter left with what it asks for, and why one that fits was left: `again` when the budget
-- was spent and it is alive, `spent` when it is dead, or the server's reason.
local function pass_on(state, caller)
  while true do
    local first = call('ZRANGE', queue, 0, 0)[1]
    if not first or first == caller then return state, first end
    local want = waiter(first)
    local alive = want and want.alive >= now
    if alive and (not fits(state, want) or want.channel == '') then return state, first, want end
    if budget == 0 then return state, first, want, alive and 'again' or 'spent' end
    budget = budget - 1
    if not alive or deaf[want.channel] then
      forget(first)
    else
      local reason
      state, reason = hand_over(state, first, want)
      if reason then return state, first, want, reason end
    end
  end
end

-- Serves the queue. The first waiter left is told to ask again when nobody else would tell it: the
-- budget was spent, or the lock can change hands before it will ask by itself. Returns the state,
-- the first waiter left, and why one that fits was left.
local function settle(state, caller)
  local first, want, reason
  state, first, want, reason = pass_on(state, caller)
  if not want or want.channel == '' then return state, first, reason end
  local at = opens(state, want)
  -- A few milliseconds are no matter: two readings of an expiry need not agree.
  if reason == 'again' or at + 5 < want.asks then
    try('PUBLISH', want.channel, 'again ' .. first)
    want.asks = math.min(at, want.asks)
    write_nothing()
    note(first, want)
  end
  return state, first, reason
end
