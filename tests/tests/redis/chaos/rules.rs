//! The rules of the scripts: where each stands, and what stands there without it.
//!
//! Not in this list, because the chaos does not miss them: what only makes waiting shorter (how
//! often strangers are asked about, when permits come free, who asks when), what no client here
//! does (lengthening less than before), and what another rule covers too (a full server, a
//! reserved lock, a queue behind a withdrawal). Most have tests of their own beside this one.

/// A rule of the scripts: its text, and what stands there without it.
pub(super) type Rule = (&'static str, &'static str, &'static str);

pub(super) const RULES: &[Rule] = &[
    (
        "a repeated grant is lengthened to a full TTL",
        "if call('PTTL', lock) < want.ttl then call('PEXPIREAT', lock, int(until_ms)) end",
        "",
    ),
    (
        "a repeated shared grant is lengthened to a full TTL",
        "if tonumber(call('ZSCORE', held, member)) >= until_ms then return end",
        "if true then return end",
    ),
    (
        "one that holds leaves the queue",
        "if answer then\n  forget(owner)",
        "if answer then",
    ),
    (
        "a released owner under a minimum hold does not get it back",
        "if state.kind == 'kept' and state.owner == owner then return { 'ended' } end",
        "if state.kind == 'kept' and state.owner == owner then return state.token end",
    ),
    (
        "nobody passes a waiter that was not judged",
        "if (not first or first == owner) and fits(state, want) then",
        "if fits(state, want) then",
    ),
    (
        "an acquire serves those in front",
        "state, first, left = settle(state, owner)",
        "first = call('ZRANGE', queue, 0, 0)[1]",
    ),
    (
        "an old ticket is honoured",
        "old > 0 and math.min(old, fresh) or fresh",
        "fresh",
    ),
    (
        "a waiter that asks again is alive for longer",
        "want.alive, want.seq = now + patience, ARGV[11]",
        "want.alive, want.seq = (waiter(owner) or { alive = now + patience }).alive, ARGV[11]",
    ),
    (
        "the record has the number of the last call",
        "want.alive, want.seq = now + patience, ARGV[11]",
        "want.alive, want.seq = now + patience, int(ARGV[11] + 1)",
    ),
    (
        "the queue and its records end",
        "if math.min(call('PTTL', queue), call('PTTL', waiters)) < patience then",
        "if false then",
    ),
    (
        "an answer that wrote nothing proves nothing (acquire)",
        "reason = refusal(try('HDEL', waiters, ''))",
        "",
    ),
    (
        "an answer that wrote nothing proves nothing (release)",
        "write_nothing()\nlocal result",
        "local result",
    ),
    (
        "an answer that wrote nothing proves nothing (renew)",
        "if doubt then",
        "if false then",
    ),
    (
        "an answer that wrote nothing proves nothing (renew shared)",
        "local refused = redis.pcall('HDEL', KEYS[#KEYS], '')\n-- One",
        "local refused\n-- One",
    ),
    (
        "a release compares the owner",
        "string.sub(value, 1, #ARGV[1]) == ARGV[1]",
        "true",
    ),
    (
        "a release compares the owner, also when others wait",
        "if state.kind == 'exclusive' and state.owner == owner then\n    local rest",
        "if state.kind == 'exclusive' then\n    local rest",
    ),
    (
        "a release takes the owner out of the queue",
        "forget(owner)\nlocal _, _, left",
        "local _, _, left",
    ),
    (
        "a release serves the queue",
        "local _, _, left = settle(look())",
        "local left",
    ),
    (
        "a minimum hold is kept",
        "if rest > 0 then\n      call('SET'",
        "if false then\n      call('SET'",
    ),
    (
        "a minimum hold is nobody's",
        "call('SET', lock, '~kept;' .. state.value, 'PXAT', int(now + rest))",
        "call('PEXPIREAT', lock, int(now + rest))",
    ),
    (
        "a minimum hold counts from the grant, and is never more than all of it",
        "return math.min(hold, math.max(0, hold - (now - math.floor(granted_ms))))",
        "return math.max(0, hold - 15 - (now - math.floor(granted_ms)))",
    ),
    (
        "permits under a minimum hold are kept",
        "if rest > 0 then call('ZADD', held",
        "if false then call('ZADD', held",
    ),
    (
        "a renewal compares the fencing token",
        "if value == ARGV[2 * i - 1] then",
        "if value and string.sub(value, 1, 60) == string.sub(ARGV[2 * i - 1], 1, 60) then",
    ),
    (
        "a shared renewal compares the phase",
        "if value ~= phase then return 'n' end",
        "",
    ),
    (
        "a shared renewal lengthens the lock too",
        "call('PEXPIREAT', lock, last[2])\n    call('PEXPIREAT', held, last[2])\n  end\n  return",
        "end\n  return",
    ),
    (
        "force compares",
        "(whole or state.owner == observed)",
        "true",
    ),
    (
        "force serves the queue",
        "if call('EXISTS', queue) == 1 then settle(look()) end\nreturn done",
        "return done",
    ),
    (
        "time runs out for permits",
        "call('ZREMRANGEBYSCORE', held, '-inf', '(' .. int(now))",
        "",
    ),
    (
        "permits weigh",
        "state.used = state.used + (weight or 1)",
        "state.used = state.used + 1",
    ),
    (
        "only the same limit shares",
        "state.limit == want.limit\n",
        "true\n",
    ),
    (
        "no more permits than there are",
        "state.used + want.weight <= want.limit",
        "true",
    ),
    (
        "exclusive locks exclude",
        "if state.kind == 'free' then return true end\n  return",
        "if state.kind ~= 'shared' then return true end\n  return",
    ),
    (
        "strangers exclude",
        "return { kind = 'foreign', value = value }",
        "return { kind = 'free', value = '' }",
    ),
    (
        "other types exclude",
        "return { kind = 'wrong', value = '' }",
        "return { kind = 'free', value = '' }",
    ),
    (
        "fencing tokens rise whatever the clock says",
        "math.max(now_us, (tonumber(last or 0) or 0) + 1)\n  local text",
        "now_us\n  local text",
    ),
    (
        "fencing tokens rise on the fast path",
        "if last >= tonumber(token) then",
        "if false then",
    ),
    (
        "a new phase forgets the holders of the last",
        "call('DEL', held)\n    call('SET', lock, value",
        "call('SET', lock, value",
    ),
    (
        "the lock lives as long as its longest holder",
        "    call('PEXPIREAT', lock, last[2])\n    call('PEXPIREAT', held, last[2])\n  else",
        "  else",
    ),
    (
        "a grant that was heard of leaves the queue",
        "  forget(owner)\n  if heard == 0 then",
        "  if heard == 0 then",
    ),
    (
        "a grant that nobody heard of is not made",
        "if heard == 0 then",
        "if false then",
    ),
    (
        "dead waiters are passed over",
        "local alive = want and want.alive >= now",
        "local alive = want",
    ),
    (
        "waiters that do not fit stop those behind",
        "if alive and (not fits(state, want) or want.channel == '') then return state",
        "if alive and not fits(state, want) then forget(first) elseif false then return state",
    ),
    (
        "the first waiter is told when the lock can change hands earlier",
        "or at + 5 < want.asks then",
        "then",
    ),
];
