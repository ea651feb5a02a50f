-- include holds/grant
-- include queue/listeners
-- include queue/search
-- rwlock/handoff
-- Grants the lock to the waiters that may have it. phase is '1' while a writer has the lock, or had
-- it last; '2' while readers are granted it that waited for a writer's end; '0' while readers have
-- it, '3' while that is one and no other joined it. After a writer all waiting readers get it.
-- Otherwise those get it that are before the first writer whose session is alive; and if there is
-- no hold then, that writer does. At most 128 a call, which is about a millisecond.
--
-- uses     after_ms, first, floor, grant, grants, heartbeats, holder, is_listening, is_marked, keep_ms, mark, more, no_tickets, queue, readers, scores, search
-- defines  blocked, hand_off, is_open, mark_score, phase, set_free, waiting
local phase = scores[2]
local is_open -- whether a reader without a ticket may have the lock
local blocked -- the ticket of the writer that comes next, if it cannot have the lock yet
-- How many tickets there are, or more: 0 if no_tickets is set. Read before the first
-- write, as the type of heartbeats is: a foreign key makes the call fail before it has an effect.
local waiting = no_tickets and 0 or redis.call('ZCARD', queue) + redis.call('ZCARD', readers)
if waiting > 0 then
  redis.call('HLEN', heartbeats)
end
local function mark_score()
  return is_marked and waiting > 0 and 1 or 0
end
local function hand_off()
  if waiting > 0 then
    mark()
  end
  if first and (phase or '1') == '1' then -- if another program removed it, a writer may have the lock
    return
  end
  is_open = true
  if waiting == 0 then
    if phase == '2' or first and is_marked then
      redis.call('ZADD', holder, 0, 'phase', 0, 'queue')
    end
    return
  end
  local all, before = phase == '2' or phase == '1', nil
  local writer, writers_life = search(queue, 'from', is_listening)()
  if writer then
    before, is_open, blocked = tonumber(redis.call('ZSCORE', queue, writer)), false, writer
  elseif more == 1 then
    is_open = false
    if not all then
      return -- whether a writer waits is not known yet
    end
  end
  local next_reader = search(readers, 'from2', is_listening)
  local reader, life = next_reader()
  while reader and (all or not before or tonumber(redis.call('ZSCORE', readers, reader)) < before) do
    if grants == MAX_GRANTS then
      more = 1
      break
    end
    grant(readers, reader, life, 0, 'phase')
    reader, life = next_reader()
  end
  if grants == 0 and not first and more == 0 and writer then
    grant(queue, writer, writers_life, 1, 'phase')
    blocked = nil
  elseif all and more == 1 then
    redis.call('ZADD', holder, 2, 'phase')
  elseif phase == '2' then
    redis.call('ZADD', holder, 0, 'phase')
  end
end
-- What is left of a free lock: the floor of the tokens, or while a session waits a key that keeps
-- other kinds of lock out, for longer than there is between two polls of any waiter.
local function set_free()
  if first or grants > 0 then
    return
  end
  if waiting == 0 or redis.call('EXISTS', queue, readers) == 0 then
    redis.call('DEL', holder)
    if floor ~= '' then
      redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
    end
    return
  end
  redis.pcall('PEXPIRE', holder, after_ms)
end
