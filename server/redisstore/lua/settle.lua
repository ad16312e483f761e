-- Notes the answer to a message that was admitted, or forgets that it was.
--
-- KEYS 1 generation, 2 records, 3 their order
-- ARGV 1 generation, 2 message id, 3 sum, 4 who ran it, 5 window (ms)
--      6 answer, or "" if the message is not to be remembered
-- Returns the answer that counts, or "" for the one that was given.

check(KEYS[1], ARGV[1])
local field = ':' .. ARGV[2]
local record = typed('HGET', KEYS[2], field)
if record then
  if string.sub(record, 2, 17) ~= ARGV[3] then
    return ''
  end
  if string.sub(record, 1, 1) == 'A' then
    return string.sub(record, 18)
  end
  if string.sub(record, 18) ~= ARGV[4] then
    return ''
  end
end
if ARGV[6] == '' then
  redis.call('HDEL', KEYS[2], field)
  redis.call('ZREM', KEYS[3], ARGV[2])
  return ''
end
redis.call('HSET', KEYS[2], field, 'A' .. ARGV[3] .. ARGV[6])
redis.call('HINCRBY', KEYS[2], 'bytes', #ARGV[6])
redis.call('ZADD', KEYS[3], whole(milliseconds()), ARGV[2])
redis.call('PEXPIRE', KEYS[2], whole(2 * tonumber(ARGV[5])))
redis.call('PEXPIRE', KEYS[3], whole(2 * tonumber(ARGV[5])))
return ''
