-- renew.lua — lengthen exclusive leases, many in one call.
--
-- KEYS[1..n]    lock     the locks
-- KEYS[n+1]     waiters  of the first of them: never changed
-- ARGV[2i-1]    value    `<owner><fencing token>`, all that the lock i must hold
-- ARGV[2i]      ttl      ms that it is to live from now
--
-- Returns  one letter for each lock: r renewed, n not ours, m missing
--
-- Why a script: the comparison and the new expiry must be one step. It only ever lengthens, and
-- never creates. The same owner under another fencing token is not this lease.

-- The lock's value; what is no string is no answer of ours. Any other refusal says nothing about
-- the lease, and is the answer.
local function look(lock)
  local value = redis.pcall('GET', lock)
  local refused = type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true)
  return refused and redis.call('GET', lock) or value
end

local answers = {}
local doubt = false
for i = 1, #KEYS - 1 do
  local value = look(KEYS[i])
  if value == ARGV[2 * i - 1] then
    if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2 * i]) then
      redis.call('PEXPIRE', KEYS[i], ARGV[2 * i])
    else
      doubt = true
    end
    answers[i] = 'r'
  else
    answers[i] = value and 'n' or 'm'
    doubt = true
  end
end
-- Changes nothing, and fails on a replica: what one says without a write must neither end a lease
-- nor keep one.
if doubt then
  local refused = redis.pcall('HDEL', KEYS[#KEYS], '')
  -- One that could write found another type there, which is no concern of these leases.
  if type(refused) == 'table' and not string.find(refused.err, 'WRONGTYPE', 1, true) then
    return refused
  end
end
return table.concat(answers)
