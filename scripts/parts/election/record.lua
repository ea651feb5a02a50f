-- election/record
-- What the key of the value says: the hold that wrote it, '' without a value, the number of its
-- last value, and the value. foreign: the key is not an election's.
--
-- uses     leader
-- defines  record, written, last, said, foreign
local record = redis.pcall('GET', leader)
local written, last, said, foreign = '', '', '', false
if type(record) == 'string' then
  foreign = string.sub(record, 1, 4) ~= 'sb1e' or #record < 61
  written, last = string.sub(record, 5, 45), string.sub(record, 46, 61)
  said = string.sub(record, 62)
elseif record then
  foreign = string.sub(record['err'], 1, 9) == 'WRONGTYPE'
  if not foreign then
    redis.call('GET', leader) -- refused: so is this, and all
  end
end
