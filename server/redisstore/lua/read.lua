-- Reads a stream from a position on, or as far back as it reaches when the position
-- is of another epoch. A position that the store itself once gave out, and that it
-- does not know any more, means that it was rolled back: numbering starts anew.
--
-- KEYS 1 generation, 2 meta, 3 entries
--      4 session whose own stream it is, if it is one
-- ARGV 1 generation, 2 epoch if one is to be minted
--      3 epoch of the position, or "", 4 position, 5 tag of the entry there
--      6 entries to read at most, 7 bytes of data after which to stop, 8 life (ms)
--      9 id behind which to go on with what was begun, or ""
-- Returns {epoch, head, tag of the head, now, fencing number of the session or "", entries},
-- for each entry its id, data, time, tag and tag of the one before, of which all but the
-- id can be missing: one flat list, as a table for each costs more than all the rest.

check(KEYS[1], ARGV[1])
local s = open(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
local from, after = '-', tonumber(ARGV[4])
if s.epoch == ARGV[3] and ARGV[9] ~= '' then
  from = '(' .. ARGV[9]
elseif s.epoch == ARGV[3] then
  from = '(' .. ARGV[4]
  local next = after < s.head and redis.call('XRANGE', KEYS[3], from, '+', 'COUNT', 1)[1]
  local prev = after == s.head and s.tag
  if next and next[1] == whole(after + 1) .. '-0' then
    prev = fields(next).p
  end
  if after > s.head or (prev and prev ~= ARGV[5]) then
    s = mint(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
    from = '-'
  end
end
redis.call('PEXPIRE', KEYS[2], ARGV[8])

local entries, n, count, bytes = {}, 0, tonumber(ARGV[6]), tonumber(ARGV[7])
while n < 5 * count and bytes > 0 do
  local page = redis.call('XRANGE', KEYS[3], from, '+', 'COUNT', math.min(32, count - n / 5))
  for _, entry in ipairs(page) do
    local v, d, t, g, p = entry[2]
    if v[1] == 'd' and v[3] == 't' and v[5] == 'g' and v[7] == 'p' then
      d, t, g, p = v[2], v[4], v[6], v[8]
    else -- a foreign one
      local f = fields(entry)
      d, t, g, p = f.d or false, f.t or false, f.g or false, f.p or false
    end
    entries[n + 1], entries[n + 2], entries[n + 3], entries[n + 4], entries[n + 5] = entry[1], d, t, g, p
    n, bytes = n + 5, bytes - #(d or '')
  end
  if #page == 0 then
    break
  end
  from = '(' .. page[#page][1]
end
local fence = KEYS[4] and typed('HGET', KEYS[4], 'fence') or ''
return {s.epoch, whole(s.head), s.tag, whole(milliseconds()), fence, entries}
