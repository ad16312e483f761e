-- What the scripts share; it is put before each of them.

-- typed calls a command, and names the key when it holds another type than ours.
local function typed(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) == 'table' and reply.err then
    if string.find(reply.err, 'WRONGTYPE', 1, true) then
      error({err = 'WRONGTYPE key ' .. key .. ' holds something else'})
    end
    error({err = reply.err})
  end
  return reply
end

-- whole writes a number as an integer: tostring would round it from 1e14 on.
local function whole(n)
  return string.format('%.0f', n)
end

local function milliseconds()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- check refuses a node that has not heard of the generation in force.
local function check(key, gen)
  if typed('HGET', key, 'gen') ~= gen then
    error({err = 'STALE another generation is in force'})
  end
end

-- mint starts the numbering of a stream anew. XADD comes later, so that the entries
-- of the numbering before must go here.
local function mint(meta, entries, gen, epoch)
  redis.call('HSET', meta, 'epoch', epoch, 'head', 0, 'bytes', 0, 'tag', '', 'gen', gen, 'trimmed', 0)
  redis.call('UNLINK', entries)
  return {epoch = epoch, head = 0, bytes = 0, tag = '', trimmed = 0}
end

-- open returns what is known of a stream, and mints its epoch if there is none, or
-- one from before the generation in force.
local function open(meta, entries, gen, epoch)
  local m = typed('HMGET', meta, 'epoch', 'head', 'bytes', 'tag', 'gen', 'trimmed')
  local n = typed('XLEN', entries)
  local head, bytes = tonumber(m[2]), tonumber(m[3])
  if not (m[1] and head and bytes and m[4] and m[5] == gen) then
    return mint(meta, entries, gen, epoch)
  end
  if n == 0 then
    bytes = 0 -- they have expired all at once
  end
  return {epoch = m[1], head = head, bytes = bytes, tag = m[4], trimmed = tonumber(m[6]) or 0}
end

-- fields turns the fields of an entry, which may be foreign, into a table.
local function fields(entry)
  local f = {}
  for i = 1, #entry[2], 2 do
    f[entry[2][i]] = entry[2][i + 1]
  end
  return f
end

-- trim drops the oldest entries beyond the bounds.
local function trim(s, entries, now, p)
  local n, from, page, last = redis.call('XLEN', entries), '-', 1, nil
  while n > 0 do
    local oldest = redis.call('XRANGE', entries, from, '+', 'COUNT', page)
    for _, entry in ipairs(oldest) do
      local f = fields(entry)
      local at = tonumber(f.t) or 0
      if n <= p.events and s.bytes <= p.bytes and now - at < p.age then
        n = 0
        break
      end
      s.bytes = math.max(0, s.bytes - #(f.d or ''))
      s.trimmed = math.max(s.trimmed, at)
      n, last = n - 1, entry[1]
    end
    if #oldest == 0 then
      break
    end
    from, page = '(' .. oldest[#oldest][1], math.min(2 * page, 64)
  end
  if last then
    local seq = tonumber(string.match(last, '^(%d+)'))
    redis.call('XTRIM', entries, 'MINID', '=', whole(seq + 1))
  end
end

-- find looks for what an append whose answer was lost has written.
local function find(s, entries, now, p)
  local to = '+'
  repeat
    local newest = redis.call('XREVRANGE', entries, to, '-', 'COUNT', 100)
    for _, entry in ipairs(newest) do
      if fields(entry).g == p.tag then
        return string.match(entry[1], '^(%d+)')
      end
      to = '(' .. entry[1]
    end
  until #newest < 100
  if p.since >= p.age or s.trimmed >= now - p.since then
    error({err = 'UNCERTAIN what was written then is gone'})
  end
end

-- append adds an event and returns its number. p: gen, epoch (if one is to be
-- minted), tag, data, events, bytes, age and life (ms), since (ms since the first try
-- whose answer was lost, with a margin; 0 if there was none).
local function append(meta, entries, channel, p)
  local now = milliseconds()
  local s = open(meta, entries, p.gen, p.epoch)
  if p.since > 0 then
    local seq = find(s, entries, now, p)
    if seq then
      return seq
    end
  end
  if s.head >= 9007199254740991 then
    error({err = 'FULL ' .. meta .. ' has reached the last number'})
  end
  local function add()
    return redis.pcall('XADD', entries, whole(s.head + 1) .. '-0',
      'd', p.data, 't', whole(now), 'g', p.tag, 'p', s.tag)
  end
  local id = add()
  if type(id) == 'table' and string.find(id.err, 'equal or smaller', 1, true) then
    s = mint(meta, entries, p.gen, p.epoch) -- foreign entries are in the way
    id = add()
  end
  if type(id) == 'table' then
    error({err = id.err})
  end
  local prev = s.tag
  s.head, s.bytes, s.tag = s.head + 1, s.bytes + #p.data, p.tag
  trim(s, entries, now, p)
  local seq = whole(s.head)
  redis.call('HSET', meta, 'head', seq, 'bytes', whole(s.bytes), 'tag', s.tag, 'trimmed', whole(s.trimmed))
  redis.call('PEXPIRE', meta, p.life)
  redis.call('PEXPIRE', entries, p.age)
  if prev == '' then
    prev = '-'
  end
  redis.call('SPUBLISH', channel, 'E ' .. s.epoch .. ' ' .. seq .. ' ' .. p.tag .. ' ' .. prev .. ' ' .. p.data)
  return seq
end

-- appending reads the arguments of append from ARGV, from the i-th on.
local function appending(i)
  return {
    gen = ARGV[1], epoch = ARGV[i], tag = ARGV[i + 1], data = ARGV[i + 2],
    events = tonumber(ARGV[i + 3]), bytes = tonumber(ARGV[i + 4]), age = tonumber(ARGV[i + 5]),
    life = tonumber(ARGV[i + 6]), since = tonumber(ARGV[i + 7]),
  }
end
