-- What all scripts of the ledger share. It does in Redis, step by step, what
-- cache/budget/account.go does in memory; the tests hold both to the same model.
--
-- KEYS: the tenant's record (hash), its leases (IDs by deadline), the records of its
-- leases (hash by ID), and the IDs that were settled. All have the tag {tenant}.
-- Everything is read and checked before anything is written, because Redis takes
-- nothing back when a script fails.
--
-- The record has few fields, each of them a list of integers, because a script spends
-- its time on reading and writing fields:
--   state             as S below
--   d20781, m674      a day or month by its number since 1970: spent (4), held (4)
--   d20781:chat       spent by kind (4)
--   born              a random name

local record, leases, open, closed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local MINUTE, DAY = 60000, 86400000
local MAX = 9007199254740991         -- what a double counts exactly
local KEEP = 65 * DAY                -- a month is needed until its end
local KEEP_CLOSED = 2 * DAY          -- renewed by the first reservation of a day
local MAX_EXPIRED, MAX_CLOSED = 100, 256
local KINDS = {'chat', 'embedding', 'planner', 'rerank', 'grade', 'tools', 'stage', 'other'}
local floor, min, max = math.floor, math.min, math.max

-- Formats of lists, as cjson reads them; what it writes is exact to 14 digits only.
local FORMATS = {
  [4] = '[%d,%d,%d,%d]',
  [8] = '[%d,%d,%d,%d,%d,%d,%d,%d]',
  [14] = '[%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d]',
}

local function text(n) return string.format('%d', n) end

local bad -- what is no record of ours

-- A list of n integers from 0 to MAX; anything else is an error, also of the comparison.
local function read(value, n)
  local list = cjson.decode(value)
  if #list ~= n then error('another length') end
  for i = 1, n do
    local x = list[i]
    if x < 0 or x > MAX or x % 1 ~= 0 then error('no integer') end
  end
  return list
end

-- The n integers of a field; zeros if there is none.
local function numbers(value, n, name)
  if value then
    local ok, list = pcall(read, value, n)
    if ok then return list end
    bad = bad or name
  end
  local list = {}
  for i = 1, n do list[i] = 0 end
  return list
end

-- S is the state: positions of its numbers. Of days and of months the last two are kept;
-- buckets have a fill and the run up to which they have drained.
local SEQ, AT, RUN, SLOTS, DAYS, MONTHS, FILL, SINCE = 1, 2, 3, 4, 5, 7, 9, 12
local S, born
local lists, dirty, gone = {}, {}, {} -- other fields by name

local function load(names)
  local missing = {'state', 'born'}
  for _, name in ipairs(names) do
    if not lists[name] then missing[#missing + 1] = name end
  end
  if S and #missing == 2 then return end
  local values = redis.call('HMGET', record, unpack(missing))
  if not S then S, born = numbers(values[1], 14, 'the state'), values[2] end
  for i = 3, #missing do
    local name = missing[i]
    lists[name] = numbers(values[i], string.find(name, ':', 1, true) and 4 or 8, name)
  end
end

local function kept(at, i) return S[at] == i or S[at + 1] == i end

local forgotten = false -- whether all leases are dropped: see restore.lua
local renewed = false -- whether the keys' times to live must be
local shift = 0       -- by how much the clock was set back

-- A lease as it is kept: a list of run, day, month, estimate (4) and limits of the
-- buckets (3), and the kind behind it.
local function decode(value, id)
  local list, kind = string.match(value or '', '^(%[[%d,]+%])(%l+)$')
  if not list then
    bad = bad or 'the lease ' .. id
    return nil
  end
  return numbers(list, 10, 'the lease ' .. id), kind
end

local shutting = {} -- IDs to be closed, with whether their leases had ended

-- The fields in which a lease counts: its day, its month, and both by its kind.
local function fields_of(l, kind)
  local d, m = 'd' .. text(l[2]), 'm' .. text(l[3])
  return {d, m, d .. ':' .. kind, m .. ':' .. kind}
end

-- Ends a lease by what was really taken, the numbers from position first on. Its fields are
-- loaded.
local function settle(id, l, fields, actual, first, ended)
  for i = 0, 2 do
    local limit, estimate, n = l[8 + i], l[4 + i], actual[first + i]
    if limit > 0 and n > estimate then
      local most, fill = 2 * limit * MINUTE, S[FILL + i]
      S[FILL + i] = max(fill, min(fill + min(n - estimate, 2 * limit) * MINUTE, most))
    elseif limit > 0 and n < estimate then
      local back = (estimate - n) * MINUTE - limit * min(S[SINCE + i] - l[1], MINUTE)
      S[FILL + i] = S[FILL + i] - min(S[FILL + i], max(0, back))
    end
  end
  for f = 1, 2 do
    if kept(f == 1 and DAYS or MONTHS, l[1 + f]) then
      local p, k = lists[fields[f]], lists[fields[2 + f]]
      for u = 1, 4 do
        local n = actual[first + u - 1]
        p[4 + u] = max(0, p[4 + u] - l[3 + u])
        p[u] = min(MAX, p[u] + n)
        k[u] = min(MAX, k[u] + n)
      end
      dirty[fields[f]], dirty[fields[2 + f]] = true, true
    end
  end
  S[SLOTS] = max(0, S[SLOTS] - min(l[4], 1))
  shutting[#shutting + 1] = {id, ended}
end

-- Writes what has changed. Nothing may fail from here on.
local function commit(nonce)
  if forgotten then redis.call('DEL', leases, open) end
  if shift < 0 then
    local all = redis.call('ZRANGE', leases, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do redis.call('ZADD', leases, text(tonumber(all[i + 1]) + shift), all[i]) end
  end
  if #shutting > 0 then
    local ids, scored = {}, {}
    for i, s in ipairs(shutting) do
      S[SEQ] = S[SEQ] + 1
      ids[i], scored[2 * i - 1], scored[2 * i] = s[1], text(2 * S[SEQ] + (s[2] and 1 or 0)), s[1]
    end
    redis.call('ZREM', leases, unpack(ids))
    redis.call('HDEL', open, unpack(ids))
    redis.call('ZADD', closed, unpack(scored))
    local n = redis.call('ZCARD', closed)
    if n == #shutting then redis.call('PEXPIRE', closed, KEEP_CLOSED) end
    if n >= MAX_CLOSED + 16 then redis.call('ZREMRANGEBYRANK', closed, 0, -1 - MAX_CLOSED) end -- not each time
  end
  if #gone > 0 then redis.call('HDEL', record, unpack(gone)) end
  local values = {'state', string.format(FORMATS[14], unpack(S))}
  for name in pairs(dirty) do
    local list = lists[name]
    values[#values + 1] = name
    values[#values + 1] = string.format(FORMATS[#list], unpack(list))
  end
  if not born then
    born = nonce
    values[#values + 1] = 'born'
    values[#values + 1] = born
  end
  redis.call('HSET', record, unpack(values))
  if renewed then
    for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], KEEP) end
    redis.call('PEXPIRE', closed, KEEP_CLOSED)
  end
end

local function corrupt() return redis.error_reply('LEDGER ' .. bad .. ' is no list of numbers') end
