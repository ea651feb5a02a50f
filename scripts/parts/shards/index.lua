-- shards/index
-- Reading the index, whose members begin with what they are for: see shards/row. All with a prefix
-- are behind it and ':', and before it and ';', the character that follows.
--
-- uses     index
-- defines  count_after, count_of, find, find_after, find_last
local function find_after(start, prefix, limit)
  local finish = '(' .. prefix .. ';'
  return redis.call('ZRANGE', index, start, finish, 'BYLEX', 'LIMIT', 0, limit)
end
local function find(prefix, limit)
  return find_after('[' .. prefix .. ':', prefix, limit)
end
local function find_last(prefix, limit)
  local start, finish = '[' .. prefix .. ':', '(' .. prefix .. ';'
  return redis.call('ZRANGE', index, finish, start, 'BYLEX', 'REV', 'LIMIT', 0, limit)
end
local function count_after(start, prefix)
  local finish = '(' .. prefix .. ';'
  return redis.call('ZLEXCOUNT', index, start, finish)
end
local function count_of(prefix)
  return count_after('[' .. prefix .. ':', prefix)
end
