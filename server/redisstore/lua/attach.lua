-- Makes a connection the newest one of a session: of the one that is offered if it
-- is there and the user's, else of a new one.
--
-- KEYS 1 generation, 2 session offered, 3 new session, 4 the user's sessions
-- ARGV 1 generation, 2 id offered or "", 3 new id, 4 user, 5 fencing number, or 0 for
--      the next one, 6 connection, 7 life (ms), 8 most sessions of a user
--      9 epoch if one is to be minted, 10 prefix of the keys, 11 life of the own stream (ms)
-- Returns {id, fencing number}, or {"", the session's} if that is not below.

check(KEYS[1], ARGV[1])
local user, fence, connection, prefix = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[10]
local now = milliseconds()

-- room forgets the session that was without a connection for longest when the user
-- has too many.
local function room()
  typed('ZREMRANGEBYSCORE', KEYS[4], '-inf', whole(now))
  if redis.call('ZCARD', KEYS[4]) < tonumber(ARGV[8]) then
    return
  end
  local oldest, since, n = nil, nil, 0
  for _, id in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do
    local s = redis.call('HMGET', prefix .. 's:' .. id, 'connection', 'seen')
    if not s[1] then
      redis.call('ZREM', KEYS[4], id)
    else
      n = n + 1
      local node, seen = string.match(s[1], '^[^.]*'), tonumber(s[2]) or 0
      if (node == '' or redis.call('EXISTS', prefix .. 'n:' .. node) == 0) and (not since or seen < since) then
        oldest, since = id, seen
      end
    end
  end
  if oldest and n >= tonumber(ARGV[8]) then
    redis.call('UNLINK', prefix .. 's:' .. oldest, prefix .. 'm:@' .. oldest, prefix .. 'e:@' .. oldest)
    redis.call('ZREM', KEYS[4], oldest)
  end
end

local id, key, taken = ARGV[3], KEYS[3], false
local s = {}
if ARGV[2] ~= '' then
  s = typed('HMGET', KEYS[2], 'user', 'fence', 'connection')
end
if s[1] == user then
  id, key, taken = ARGV[2], KEYS[2], true
else
  s = typed('HMGET', KEYS[3], 'user', 'fence', 'connection') -- there if the answer was lost
end
local current = tonumber(s[2]) or 0
if s[3] == connection then
  fence = current
else
  if fence == 0 then
    fence = current + 1
  end
  if fence <= current then
    return {'', whole(current)}
  end
  if not taken and user ~= '' then
    room()
  end
end
redis.call('HSET', key, 'user', user, 'fence', whole(fence), 'connection', connection, 'seen', whole(now))
redis.call('PEXPIRE', key, ARGV[7])
if user ~= '' then
  redis.call('ZADD', KEYS[4], whole(now + tonumber(ARGV[7])), id)
  redis.call('PEXPIRE', KEYS[4], ARGV[7])
end
open(prefix .. 'm:@' .. id, prefix .. 'e:@' .. id, ARGV[1], ARGV[9])
redis.call('PEXPIRE', prefix .. 'm:@' .. id, ARGV[11])
if taken then
  redis.call('SPUBLISH', prefix .. 'c:@' .. id, 'F ' .. whole(fence))
end
return {id, whole(fence)}
