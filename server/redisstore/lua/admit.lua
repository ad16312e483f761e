-- Looks a message up, and notes that it is running when it is new.
--
-- A record is a letter, the 16 bytes of the sum, and who runs it (R) or its answer
-- (A). The order has the time of the answer of each, and beyond running those that
-- run, by when they began.
--
-- KEYS 1 generation, 2 session, 3 records, 4 their order
-- ARGV 1 generation, 2 fencing number, 3 message id, 4 sum, 5 who would run it
--      6 window (ms), 7 most records, 8 most bytes of answers, 9 answer for a message whose
--      node is gone, 10 prefix of the keys
-- Returns {kind} or {kind, answer, or ms to wait}.

check(KEYS[1], ARGV[1])
if (tonumber(typed('HGET', KEYS[2], 'fence')) or 0) > tonumber(ARGV[2]) then
  return {'superseded'}
end
local records, order, window, running = KEYS[3], KEYS[4], tonumber(ARGV[6]), 1e15
local now = milliseconds()
local bytes = tonumber(typed('HGET', records, 'bytes')) or 0

local function settle(id, sum, answer)
  redis.call('HSET', records, ':' .. id, 'A' .. sum .. answer)
  redis.call('ZADD', order, whole(now), id)
  bytes = bytes + #answer
  redis.call('HSET', records, 'bytes', bytes)
end
local function abandoned(record)
  return redis.call('EXISTS', ARGV[10] .. 'n:' .. string.match(string.sub(record, 18), '^[^.]*')) == 0
end

local old = typed('ZRANGE', order, '-inf', whole(now - window), 'BYSCORE', 'LIMIT', 0, 100)
for _, id in ipairs(old) do
  bytes = math.max(0, bytes - #(redis.call('HGET', records, ':' .. id) or '') + 17)
  redis.call('HDEL', records, ':' .. id)
  redis.call('ZREM', order, id)
end
if #old > 0 then
  redis.call('HSET', records, 'bytes', bytes)
end
-- Nobody may ask for what was left behind by a node that died.
for _, id in ipairs(redis.call('ZRANGE', order, running, '+inf', 'BYSCORE', 'LIMIT', 0, 4)) do
  local record = redis.call('HGET', records, ':' .. id)
  if record and abandoned(record) then
    settle(id, string.sub(record, 2, 17), ARGV[9])
  end
end

local record = redis.call('HGET', records, ':' .. ARGV[3])
if record then
  if string.sub(record, 2, 17) ~= ARGV[4] then
    return {'conflict'}
  end
  if string.sub(record, 1, 1) == 'A' then
    return {'answered', string.sub(record, 18)}
  end
  if string.sub(record, 18) == ARGV[5] then
    return {'admitted'} -- the answer was lost
  end
  if abandoned(record) then
    settle(ARGV[3], ARGV[4], ARGV[9])
    return {'answered', ARGV[9]}
  end
  return {'running'}
end
if redis.call('ZCARD', order) >= tonumber(ARGV[7]) or bytes >= tonumber(ARGV[8]) then
  local first = tonumber(redis.call('ZRANGE', order, 0, 0, 'WITHSCORES')[2])
  return {'full', first < running and whole(math.max(0, first + window - now)) or '0'}
end
redis.call('HSET', records, ':' .. ARGV[3], 'R' .. ARGV[4] .. ARGV[5])
redis.call('ZADD', order, whole(running + now), ARGV[3])
redis.call('PEXPIRE', records, whole(2 * window))
redis.call('PEXPIRE', order, whole(2 * window))
return {'admitted'}
