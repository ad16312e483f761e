-- Calls what the other scripts call, so that what is not there, or not allowed, is
-- said when a store is opened.
--
-- KEYS 1 a key of its own, 2 a channel

for _, call in ipairs({
  {'TIME'},
  {'INFO', 'server'},
  {'UNLINK', KEYS[1]},
  {'SET', KEYS[1], '1', 'PX', '1000'},
  {'UNLINK', KEYS[1]},
  {'XADD', KEYS[1], '1-0', 'd', ''},
  {'XLEN', KEYS[1]},
  {'XRANGE', KEYS[1], '-', '+'},
  {'XREVRANGE', KEYS[1], '+', '-'},
  {'XTRIM', KEYS[1], 'MINID', '=', '2'},
  {'UNLINK', KEYS[1]},
  {'HSET', KEYS[1], 'a', '1'},
  {'HGET', KEYS[1], 'a'},
  {'HMGET', KEYS[1], 'a'},
  {'HINCRBY', KEYS[1], 'a', '1'},
  {'HDEL', KEYS[1], 'a'},
  {'ZADD', KEYS[1], '1', 'a'},
  {'ZCARD', KEYS[1]},
  {'ZRANGE', KEYS[1], '0', '-1'},
  {'ZREMRANGEBYSCORE', KEYS[1], '-inf', '0'},
  {'PEXPIRE', KEYS[1], '1000'},
  {'ZREM', KEYS[1], 'a'},
  {'EXISTS', KEYS[1]},
  {'SPUBLISH', KEYS[2], ''},
}) do
  local reply = redis.pcall(unpack(call))
  if type(reply) == 'table' and reply.err then
    error({err = 'ERR ' .. call[1] .. ' fails: ' .. reply.err})
  end
end
return 1
