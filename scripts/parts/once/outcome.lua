-- once/outcome
-- What is stored: the stamp of the hold under which the function ran, and the value. is_foreign:
-- the key is no outcome's.
--
-- uses     outcome
-- defines  text, is_foreign
local text = redis.call('GET', outcome)
local is_foreign = text and (#text < 20 or string.sub(text, 1, 4) ~= 'sb1o')
