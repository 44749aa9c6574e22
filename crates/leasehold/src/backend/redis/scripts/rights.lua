-- rights.lua — which rights the user lacks that the other scripts need.
--
-- KEYS[1]  any      key that begins as the companion keys do: never touched
-- ARGV[1]  channel  that begins as the push channels do
--
-- Returns  the commands that are missing, in lower case; nothing before Redis 7, which cannot tell
--
-- Why a script: a user who may take a lock and not give it up would leave it behind each time.
-- The server answers here without carrying anything out.

local missing = {}
if not redis.acl_check_cmd then return missing end
local key = KEYS[1]
local needed = {
  { 'time' }, { 'exists', key }, { 'type', key }, { 'get', key }, { 'set', key, '' },
  { 'del', key }, { 'pttl', key }, { 'pexpire', key, '1' }, { 'pexpireat', key, '1' },
  { 'hget', key, '' }, { 'hset', key, '', '' }, { 'hdel', key, '' }, { 'zadd', key, '1', '' },
  { 'zrem', key, '' }, { 'zscore', key, '' }, { 'zcard', key }, { 'zcount', key, '0', '0' },
  { 'zrank', key, '' }, { 'zrange', key, '0', '0' }, { 'zrevrange', key, '0', '0' },
  { 'zremrangebyscore', key, '0', '0' }, { 'publish', ARGV[1], '' },
}
for _, words in ipairs(needed) do
  if not redis.acl_check_cmd(unpack(words)) then missing[#missing + 1] = words[1] end
end
return missing
