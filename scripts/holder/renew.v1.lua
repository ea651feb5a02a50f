-- holder/renew v1
-- Lengthens the life of many holds, or asks whether they are there still. It never creates a key,
-- and touches those only that still belong to the hold that is named beside them.
--
-- KEYS[n]  holder  string: 'sb1', kind (1), stamp (16), id (41), ...; see README.md
-- ARGV[n]  terms  a pair by key, at 2n-1 and 2n: hold, ttl_ms
--            hold    id (41), and for kind l the mode behind it
--            ttl_ms  positive integer; 0 asks only
-- returns  {alive, ...}  by key: 1 it lives on, 0 the hold has it no more, -8 the server refused to
--          say, or ttl_ms is no number of 1 to 15 digits: nothing changed
-- effects  lengthens the life of the KEYS, 15 seconds longer if they are marked (kind l); publishes
--          nothing
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
  elseif type(value) == 'string' then
    if string.sub(value, 1, 4) == 'sb1l' then
      if string.sub(value, ID_START, STAMP_END + #ticket) == ticket and string.sub(value, MODE_AT, MODE_AT) ~= '-' then
        local after_ms = string.sub(value, MARK_AT, MARK_AT) == 'q' and GRACE_MS or 0 -- a marked key outlives its hold
        if ttl_ms ~= '0' then
          -- It is not made shorter. A key that another program took the end from gets it back.
          local done, lengthened = pcall(lengthen_key, holder, ttl_ms + after_ms)
          done = done and pcall(note_life, holder, ttl_ms, value)
          alive[n] = done and 1 or -8
          if lengthened == 0 and redis.pcall('PTTL', holder) == -1 then
            redis.pcall('PEXPIRE', holder, ttl_ms + after_ms)
          end
        elseif after_ms == 0 or redis.call('PTTL', holder) > after_ms then
          alive[n] = 1
        end
      end
    elseif string.sub(value, ID_START, ID_END) == ticket then
      alive[n] = 1
      if ttl_ms ~= '0' and (type(redis.pcall('PEXPIRE', holder, ttl_ms)) == 'table' or not pcall(note_life, holder, ttl_ms, value)) then
        alive[n] = -8
      end
    end
  elseif value and string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
    alive[n] = -8
  end
end
return alive
