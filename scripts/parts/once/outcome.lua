-- once/outcome
-- What is stored: the stamp of the hold under which the function ran, and the value. is_foreign:
-- the key is no outcome's.
--
-- uses     outcome
-- defines  is_foreign, text
local text = redis.call('GET', outcome)
local is_foreign = text and (#text < STAMP_END or string.sub(text, 1, 4) ~= 'sb1o')
