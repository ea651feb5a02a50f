-- include shards/index
-- include shards/text
-- include shards/requested
-- shards/news
-- What a member learns at its polls; and what its first poll does.
--
-- uses     decimal, digits, find, find_after, index, list_rows, named, now_us, read_requested, row_text, rows, set_state, state
-- defines  begin_member, mark_read, news_of, read_of, write_news
local function begin_member(owner, member)
  set_state(owner, member, member.state == 'q' and 'p' or 'l')
  if member.requested ~= '0' then
    redis.call('ZADD', index, 0, 'c:' .. member.requested .. ':' .. owner)
  end
  read_requested()
  -- Moves wait until no member has come for a while, which is longer while new members die.
  if state.crashes > 0 and now_us - state.crashed > CRASH_LOOP_US then
    local calm_times = math.floor((now_us - state.crashed) / CRASH_LOOP_US)
    state.crashes, state.crashed = math.floor(state.crashes / 2 ^ calm_times), now_us
  end
  local calm_us = state.calm * 2 ^ state.crashes
  if state.quiet < now_us then
    state.quiet_end = now_us + 5 * calm_us
  end
  state.quiet = math.max(state.quiet, math.min(state.quiet_end, now_us + calm_us))
end
-- A poll says what news the member has read: the contexts of the shards that it was asked for have
-- ended by then. From now on the limit of these drains counts, and not from when they were asked.
local function mark_read(owner, member, seen)
  local first = find('a', 1)[1]
  local oldest = first and string.match(first, '^a:(%d+):')
  local read = digits(math.min(seen, state.version))
  if oldest and oldest <= read then
    local start = '(n:' .. owner .. ':' .. member.seen .. ';'
    if member.seen < oldest then
      start = '[n:' .. owner .. ':' .. oldest
    end
    local finish = '(n:' .. owner .. ':' .. read .. ';'
    local found = redis.call('ZRANGE', index, start, finish, 'BYLEX', 'LIMIT', 0, NEWS_PAGE)
    local entries_read, texts = {}, {}
    list_rows(found, '^n:%d+:%d+:(.*)$', function(row, shard)
      if row.state ~= 'o' and row.till == '0' then
        row.till = digits(now_us)
        entries_read[#entries_read + 1], entries_read[#entries_read + 2] = 0, 'h:' .. digits(now_us) .. ':' .. shard
        texts[#texts + 1], texts[#texts + 2] = shard, row_text(row)
      end
      return ''
    end)
    if texts[1] then
      redis.call('ZADD', index, unpack(entries_read))
      redis.call('HSET', rows, unpack(texts))
    end
    read = #found == NEWS_PAGE and string.match(found[NEWS_PAGE], '^n:%d+:(%d+):') or read
  end
  member.seen, member.is_dirty = read, true
end
local function write_news(row, shard)
  return row.version .. row.token .. row.state .. named(row, shard)
end
local function news_of(owner, since)
  local found = find_after('(n:' .. owner .. ':' .. since .. ';', 'n:' .. owner, NEWS_PAGE)
  local news = list_rows(found, '^n:%d+:%d+:(.*)$', write_news)
  return news, #found == NEWS_PAGE and 1 or 0
end
-- Returns of what a member owns and has read: the version of the last one, and how many they are. A
-- member that knows another version or number has read what the server has lost.
local function read_of(owner, since)
  local start, finish = '[n:' .. owner .. ':', '(n:' .. owner .. ':' .. since .. ';'
  local last = redis.call('ZRANGE', index, finish, start, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local version = last and string.match(last, '^n:%d+:(%d+):') or NO_STAMP
  return version .. decimal(redis.call('ZLEXCOUNT', index, start, finish))
end
