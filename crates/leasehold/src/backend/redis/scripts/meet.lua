-- meet.lua — note on one of several nodes among which nodes a client votes, and say what others do.
--
-- KEYS[1]  nodes    zset: list -> when it was last noted, server ms
-- KEYS[2]  since    zset: list -> when it was first noted, server ms
-- ARGV[1]  grace    ms for which a list counts beyond its max_ttl
-- ARGV[2]  list     the client's, `<max_ttl, ms>;<node>,<node>...`; none to look only
--
-- Returns  {now, {list, first, last}, ...}  the server's time in µs; how many ms ago each was
--                   noted
--
-- Why a script: the server's clock decides which lists still count.

local call = redis.call
local time = call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local grace, own = tonumber(ARGV[1]), ARGV[2]

local function ms_ago(score) return math.max(0, now - (tonumber(score or now) or now)) end

if own then
  local score = string.format('%.0f', now)
  if not call('ZSCORE', KEYS[2], own) then call('ZADD', KEYS[2], score, own) end
  call('ZADD', KEYS[1], score, own)
end
local answer = { time[1] .. string.format('%06d', time[2]) }
local lists = call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #lists, 2 do
  local list, last = lists[i], ms_ago(lists[i + 1])
  -- Noted before the clock was set back: it must not count for longer than others.
  if tonumber(lists[i + 1]) > now then call('ZADD', KEYS[1], string.format('%.0f', now), list) end
  if last > (tonumber(string.match(list, '^(%d+);')) or 0) + grace then
    call('ZREM', KEYS[1], list)
    call('ZREM', KEYS[2], list)
  else
    answer[#answer + 1] = { list, ms_ago(call('ZSCORE', KEYS[2], list)), last }
  end
end
return answer
