-- Appends an event to a stream.
--
-- KEYS 1 generation, 2 meta, 3 entries, 4 channel
--      5 session whose own stream it is, if it is one
-- ARGV 1 generation, 2… see appending
-- Returns the event's number.

check(KEYS[1], ARGV[1])
if KEYS[5] and redis.call('EXISTS', KEYS[5]) == 0 then
  error({err = 'NOSESSION no such session'})
end
return append(KEYS[2], KEYS[3], KEYS[4], appending(2))
