-- slots.lua — the permits of a semaphore by number, where several nodes vote: each must be given
-- by a majority, as if it were a lock. It stands where "include slots.lua" is, behind common.lua.
--
-- KEYS     of the script it stands in
-- ARGV     of the script it stands in
--
-- Returns  nothing
--
-- Why like this: counting permits on each node would let three holders have two permits, each on
-- another two of three nodes. A set of slots is text, the same for the same set: `0-3,7`.

-- Calls `visit` with each range of a set.
local function ranges(text, visit)
  for first, last in string.gmatch(text, '(%d+)-?(%d*)') do
    visit(tonumber(first), tonumber(last) or tonumber(first))
  end
end

-- The ranges that are taken, in order.
local function taken(state)
  local busy = {}
  for _, member in ipairs(state.members or {}) do
    local _, _, _, slots = split_member(member)
    ranges(slots or '', function(first, last) busy[#busy + 1] = { first, last } end)
  end
  table.sort(busy, function(a, b) return a[1] < b[1] end)
  return busy
end

local function as_text(chosen)
  table.sort(chosen, function(a, b) return a[1] < b[1] end)
  local words, first, last = {}, nil, nil
  local function put()
    if first then words[#words + 1] = int(first) .. (first < last and '-' .. int(last) or '') end
  end
  for _, range in ipairs(chosen) do
    if first and range[1] == last + 1 then
      last = range[2]
    else
      put()
      first, last = range[1], range[2]
    end
  end
  put()
  return table.concat(words, ',')
end

-- As many free slots as are wanted, from `want.start` on and around, so that nodes that agree on
-- what is taken give the same; or nil when there are not so many.
local function choose(state, want)
  local free, next_free = {}, 0
  for _, range in ipairs(taken(state)) do
    if range[1] > next_free then free[#free + 1] = { next_free, range[1] - 1 } end
    next_free = math.max(next_free, range[2] + 1)
  end
  if next_free < want.limit then free[#free + 1] = { next_free, want.limit - 1 } end
  local chosen, left = {}, want.weight
  local function take(low, high)
    for _, range in ipairs(free) do
      local first = math.max(range[1], low)
      local last = math.min(range[2], high, first + left - 1)
      if first <= last then
        chosen[#chosen + 1] = { first, last }
        left = left - (last - first + 1)
      end
    end
  end
  take(want.start, want.limit - 1)
  take(0, want.start - 1)
  if left > 0 then return nil end
  return as_text(chosen)
end

-- Whether nobody has any slot of this set.
local function are_free(state, slots)
  local result = true
  for _, busy in ipairs(taken(state)) do
    ranges(slots, function(first, last)
      if first <= busy[2] and last >= busy[1] then result = false end
    end)
  end
  return result
end
