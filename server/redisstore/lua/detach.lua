-- Notes that a connection has ended; of one that was superseded it changes nothing.
--
-- KEYS 1 generation, 2 session, 3 the user's sessions
-- ARGV 1 generation, 2 id, 3 user, 4 connection, 5 life (ms)

check(KEYS[1], ARGV[1])
if typed('HGET', KEYS[2], 'connection') ~= ARGV[4] then
  return 0
end
local now = milliseconds()
redis.call('HSET', KEYS[2], 'connection', '', 'seen', whole(now))
redis.call('PEXPIRE', KEYS[2], ARGV[5])
if ARGV[3] ~= '' then
  redis.call('ZADD', KEYS[3], whole(now + tonumber(ARGV[5])), ARGV[2])
  redis.call('PEXPIRE', KEYS[3], ARGV[5])
end
return 1
