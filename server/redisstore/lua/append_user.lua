-- Appends an event to the own stream of each session of a user. Their keys are of the
-- same hash slot, and named by the sessions that are found.
--
-- KEYS 1 generation, 2 the user's sessions
-- ARGV 1 generation, 2 prefix of the keys, 3… see appending
-- Returns how many those are.

check(KEYS[1], ARGV[1])
local prefix, n = ARGV[2], 0
for _, id in ipairs(typed('ZRANGE', KEYS[2], 0, -1)) do
  if redis.call('EXISTS', prefix .. 's:' .. id) == 1 then
    append(prefix .. 'm:@' .. id, prefix .. 'e:@' .. id, prefix .. 'c:@' .. id, appending(3))
    n = n + 1
  end
end
return n
