-- admit.lua — run commands, unless a larger fencing token has been seen.
--
-- KEYS[1] the largest fencing token seen, as decimal digits; never expires
-- ARGV[1] the fencing token shown; then, for each command, the number of its words and the words
-- Returns {1, {reply, ...}} when let in, {0, seen} when refused, an error when KEYS[1] is no number
local seen, shown = redis.pcall('GET', KEYS[1]), ARGV[1]
if seen then
  if type(seen) ~= 'string' or not seen:match('^[1-9]%d*$') then
    return redis.error_reply('FENCE ' .. KEYS[1] .. ' is not a fencing token')
  end
  -- As text, length first: exact, however many digits there are.
  if #seen > #shown or (#seen == #shown and seen > shown) then
    return { 0, seen }
  end
end
if seen ~= shown then
  redis.call('SET', KEYS[1], shown)
end
local replies, at = {}, 2
while ARGV[at] do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words))
  at = at + 1 + words
end
return { 1, replies }
