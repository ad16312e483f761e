-- Says which generation is in force, and raises it when this is not the server, or
-- not the history, that it was recorded of.
--
-- KEYS 1 generation, 2 lease of the node, which is renewed
-- ARGV 1 the highest generation that the node has heard of, or 0
--      2 id of the memory of message ids, if a generation is to begin, 3 lease (ms)
-- Returns {generation, id of the memory}.

local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local replication = redis.call('INFO', 'replication')
local history = string.match(replication, 'master_replid:(%x+)')
local before = string.match(replication, 'master_replid2:(%x+)')

local known = typed('HMGET', KEYS[1], 'run', 'history', 'gen', 'memory')
local gen, heard = tonumber(known[3]) or 0, tonumber(ARGV[1])
-- A primary takes a new replication id with its first replica too, and when its last
-- one has been away for long; only after having been a replica it has one before it.
local same = known[1] == run and gen >= heard and known[4]
  and (known[2] == history or not string.find(before, '[1-9a-f]'))
if not same then
  gen = math.max(gen + 1, heard + 1, milliseconds())
  known[4] = ARGV[2]
  redis.call('HSET', KEYS[1], 'run', run, 'gen', whole(gen), 'memory', known[4])
end
if not same or known[2] ~= history then
  redis.call('HSET', KEYS[1], 'history', history)
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[3])
return {whole(gen), known[4]}
