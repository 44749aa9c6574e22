-- inspect.lua — who holds a name and who waits for it. Writes nothing, so a replica can answer.
--
-- KEYS[1]  lock      KEYS[2]  fence     KEYS[3]  queue     KEYS[4]  waiters   KEYS[5]  held
--                    what they hold: common.lua
-- KEYS[6]  notes     hash: holder -> its note
-- ARGV               none
--
-- Returns  {type, value, remaining, now, held, queue, wants, notes}
--          type       what TYPE says of the lock: none, string, or what is no lock
--          value      of the lock; empty unless it is a string
--          remaining  ms until it expires; -1 never, -2 absent
--          now        the server's time in µs
--          held       shared holder, expiry in ms, and so on; dead ones among them
--          queue      owner, ticket, and so on
--          wants      what each of them asks for, in the order of the queue
--          notes      that of the holder, or of each shared holder in their order; nil without one
--
-- Why a script: the parts must be of one moment.

local call = redis.call
local time = call('TIME')
local kind = call('TYPE', KEYS[1]).ok
local value = kind == 'string' and call('GET', KEYS[1]) or ''
local held = {}
if string.sub(value, 1, 8) == '~shared:' then
  held = call('ZRANGE', KEYS[5], 0, -1, 'WITHSCORES')
end
local queue = call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
local wants = {}
for i = 1, #queue, 2 do wants[#wants + 1] = call('HGET', KEYS[4], queue[i]) or '' end
local function note(holder)
  local text = redis.pcall('HGET', KEYS[6], string.match(holder, '^(.*;)[^;]*$') or '')
  return type(text) == 'string' and text
end
local notes = {}
if held[1] then
  for i = 1, #held, 2 do notes[#notes + 1] = note(held[i]) end
else
  notes[1] = note(value)
end
return { kind, value, call('PTTL', KEYS[1]), time[1] .. string.format('%06d', time[2]), held, queue,
  wants, notes }
