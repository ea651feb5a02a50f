-- election/record
-- What the key of the value says: the hold that wrote it, '' without a value, the number of its
-- last value, and the value. is_foreign: the key is not an election's.
--
-- uses     leader
-- defines  is_foreign, last_number, record, value, writer
local record = redis.pcall('GET', leader)
local writer, last_number, value, is_foreign = '', '', '', false
if type(record) == 'string' then
  is_foreign = string.sub(record, 1, 4) ~= 'sb1e' or #record < RECORD_NUMBER_END
  writer, last_number = string.sub(record, RECORD_ID_START, RECORD_ID_END), string.sub(record, RECORD_ID_END + 1, RECORD_NUMBER_END)
  value = string.sub(record, RECORD_NUMBER_END + 1)
elseif record then
  is_foreign = string.sub(record['err'], 1, 9) == 'WRONGTYPE'
  if not is_foreign then
    redis.call('GET', leader) -- refused: so is this, and all
  end
end
