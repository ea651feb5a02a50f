-- include shards/index
-- include shards/text
-- include shards/requested
-- shards/news
-- What a member learns at its polls; and what its first poll does.
--
-- uses     find_after, index, list_rows, named, now_us, read_requested, set_state, state
-- defines  begin_member, news_of, write_news
local function begin_member(owner, member)
  set_state(owner, member, 'l')
  redis.call('ZADD', index, 0, 'c:' .. member.requested .. ':' .. owner)
  read_requested()
  -- Moves wait until no member has come for a while, which is longer while new members die.
  if state.crashes > 0 and now_us - state.crashed > CRASH_LOOP_US then
    state.crashes, state.crashed = math.floor(state.crashes / 2), now_us
  end
  local calm_us = state.calm * 2 ^ state.crashes
  if state.quiet < now_us then
    state.quiet_end = now_us + 5 * calm_us
  end
  state.quiet = math.max(state.quiet, math.min(state.quiet_end, now_us + calm_us))
end
local function write_news(row, shard)
  return row.version .. row.token .. row.state .. named(row, shard)
end
local function news_of(owner, since)
  local found = find_after('(n:' .. owner .. ':' .. since .. ';', 'n:' .. owner, NEWS_PAGE)
  local news = list_rows(found, '^n:%d+:%d+:(.*)$', write_news)
  return news, #found == NEWS_PAGE and 1 or 0
end
