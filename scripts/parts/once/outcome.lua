-- once/outcome
-- What is stored: the stamp of the hold under which the function ran, and the value. foreign: the
-- key is no outcome's.
--
-- uses     outcome
-- defines  text, foreign
local text = redis.call('GET', outcome)
local foreign = text and (#text < 20 or string.sub(text, 1, 4) ~= 'sb1o')
