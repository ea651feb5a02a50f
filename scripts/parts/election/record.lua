-- election/record
-- What the key of the value says: the hold that wrote it, '' without a value, the number of its
-- last value, and the value. is_foreign: the key is not an election's.
--
-- uses     leader
-- defines  record, writer, last_number, value, is_foreign
local record = redis.pcall('GET', leader)
local writer, last_number, value, is_foreign = '', '', '', false
if type(record) == 'string' then
  is_foreign = string.sub(record, 1, 4) ~= 'sb1e' or #record < 61
  writer, last_number = string.sub(record, 5, 45), string.sub(record, 46, 61)
  value = string.sub(record, 62)
elseif record then
  is_foreign = string.sub(record['err'], 1, 9) == 'WRONGTYPE'
  if not is_foreign then
    redis.call('GET', leader) -- refused: so is this, and all
  end
end
