-- Keeps a session that has a connection, and makes it again if it was lost.
--
-- KEYS 1 generation, 2 session, 3 the user's sessions, 4 meta of the own stream
--      5 channel of the own stream
-- ARGV 1 generation, 2 id, 3 user, 4 fencing number, 5 connection, 6 life (ms)
--      7 life of the own stream (ms)
-- Returns the session's fencing number: a higher one is of a newer connection.

check(KEYS[1], ARGV[1])
local fence = tonumber(ARGV[4])
local current = tonumber(typed('HGET', KEYS[2], 'fence')) or 0
if current > fence then
  return whole(current)
end
local now = milliseconds()
redis.call('HSET', KEYS[2], 'user', ARGV[3], 'fence', ARGV[4], 'connection', ARGV[5], 'seen', whole(now))
redis.call('PEXPIRE', KEYS[2], ARGV[6])
redis.call('PEXPIRE', KEYS[4], ARGV[7])
if ARGV[3] ~= '' then
  redis.call('ZADD', KEYS[3], whole(now + tonumber(ARGV[6])), ARGV[2])
  redis.call('PEXPIRE', KEYS[3], ARGV[6])
end
if 0 < current and current < fence then
  redis.call('SPUBLISH', KEYS[5], 'F ' .. ARGV[4]) -- made again by an older connection
end
return ARGV[4]
