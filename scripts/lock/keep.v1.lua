-- lock/keep v1
-- Lengthens the life of many holds that may be idle, or want to learn of waiters, or asks whether
-- they are there still, as holder/renew does, and says whether their keys are marked: then another
-- attempt may want the lock.
--
-- KEYS[n]  holder  string: 'sb1l', stamp (16), ticket (42), mark (1), label; see README.md
-- ARGV[n]  terms  a pair by key, at 2n-1 and 2n: hold, ttl_ms
--            hold    the ticket: id (41) and mode (1)
--            ttl_ms  positive integer; 0 asks only
-- returns  {alive, ...}  by key: 1 it lives on, 5 it lives on and is marked, 0 the hold has it no
--          more, -8 the server refused to say, or ttl_ms is no number of 1 to 15 digits: nothing
--          changed
-- effects  lengthens the life of the KEYS, 15 seconds longer if they are marked; publishes nothing
-- cost     O(keys): GET and PEXPIRE each, or PTTL for a marked key that is asked for only; PTTL for
--          a key that is not lengthened; SET once for a life of more than 30 seconds

-- include key/lengthen
-- include lock/longest

local alive = {}
for n, holder in ipairs(KEYS) do
  local ticket, ttl_ms = ARGV[2 * n - 1], ARGV[2 * n]
  -- pcall: a key of the wrong type is that hold's loss, not the whole batch's.
  local value = redis.pcall('GET', holder)
  alive[n] = 0
  if not string.find(ttl_ms, '^%d+$') or #ttl_ms > MAX_DIGITS then
    alive[n] = -8 -- a life of -1 would delete the key
  elseif type(value) == 'table' then
    if string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
      alive[n] = -8
    end
  elseif value and string.sub(value, 1, 4) == 'sb1l' and #ticket == TICKET_LENGTH and string.sub(value, ID_START, MODE_AT) == ticket then
    local is_marked = string.sub(value, MARK_AT, MARK_AT) == 'q'
    local after_ms, is_there = is_marked and GRACE_MS or 0, is_marked and 5 or 1 -- a marked key outlives its hold
    if ttl_ms ~= '0' then
      -- It is not made shorter. A key that another program took the end from gets it back.
      local done, lengthened = pcall(lengthen_key, holder, ttl_ms + after_ms)
      done = done and pcall(note_life, holder, ttl_ms, value)
      alive[n] = done and is_there or -8
      if lengthened == 0 and redis.pcall('PTTL', holder) == -1 then
        redis.pcall('PEXPIRE', holder, ttl_ms + after_ms)
      end
    elseif not is_marked or redis.call('PTTL', holder) > after_ms then
      alive[n] = is_there
    end
  end
end
return alive
