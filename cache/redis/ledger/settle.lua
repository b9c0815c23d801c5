-- Settles calls of a tenant. ARGV: nonce, time, what the caller remembers of the record (3; as
-- reserve.lua takes it), then of each call its ID, the sequence number at which it was granted
-- (0: not known), its kind, and its actual amounts (4). The same ID may come twice.
local FIRST, EACH = 6, 7
local ids = {}
for i = FIRST, #ARGV, EACH do ids[#ids + 1] = ARGV[i] end
redis.call('ZCARD', closed) -- fails where the key is of another type
local held, calls, names, known = redis.call('HMGET', open, unpack(ids)), {}, {}, {}
for i = 1, #ids do
  local l, kind
  if held[i] then l, kind = decode(held[i], ids[i]) end
  if l then
    calls[i] = {l, fields_of(l, kind)}
    for _, name in ipairs(calls[i][2]) do
      if not known[name] then known[name], names[#names + 1] = true, name end
    end
  end
end
load(names)
local function begin_once()
  if not now then begin(ARGV[2]) end
end
if is_lost(ARGV[3], ARGV[4]) then
  begin_once()
  restore(ARGV[3], ARGV[4], ARGV[5])
  if forgotten then held, calls = {}, {} end
  if lost == 1 then
    pass()
    S[AT], S[RUN] = now, run
  end
end

-- Whether all IDs are known that were settled after a sequence number.
local oldest
local function remembered_since(seq)
  if not oldest then
    oldest = 0
    if redis.call('ZCARD', closed) >= MAX_CLOSED then
      oldest = floor(tonumber(redis.call('ZRANGE', closed, 0, 0, 'WITHSCORES')[2]) / 2)
    end
  end
  return seq > 0 and seq >= oldest
end

-- Charges a call whose reservation was lost, to the present day and month.
local function charge(kind, actual)
  begin_once()
  local is_kind = false
  for _, k in ipairs(KINDS) do is_kind = is_kind or k == kind end
  if not is_kind then kind = 'other' end
  if S[AT] == 0 then S[AT] = now end
  ensure(DAYS, 'd', day)
  ensure(MONTHS, 'm', month)
  for _, name in ipairs({today, this_month}) do
    local of_kind = name .. ':' .. kind
    load({of_kind})
    for u = 1, 4 do
      lists[name][u] = min(MAX, lists[name][u] + actual[u])
      lists[of_kind][u] = min(MAX, lists[of_kind][u] + actual[u])
    end
    dirty[name], dirty[of_kind] = true, true
  end
end

local codes, first = {}, {} -- first: what was done with an ID
for i, id in ipairs(ids) do
  local call, at = calls[i], FIRST + EACH * (i - 1)
  local score = not held[i] and not first[id] and redis.call('ZSCORE', closed, id)
  local actual = {}
  for u = 1, 4 do actual[u] = tonumber(ARGV[at + 2 + u]) end
  if first[id] then
    codes[i] = first[id] == 'expired' and 'expired' or 'repeated'
  elseif held[i] then
    if call then settle(id, call[1], call[2], actual, 1, false) end
    codes[i] = 'settled'
  elseif score then
    codes[i] = tonumber(score) % 2 == 1 and 'expired' or 'repeated'
  else
    codes[i] = 'unknown'
    if remembered_since(tonumber(ARGV[at + 1])) then
      charge(ARGV[at + 2], actual)
      codes[i] = 'settled'
    end
    shutting[#shutting + 1] = {id, false}
  end
  first[id] = first[id] or codes[i]
end
if bad then return corrupt() end
if #shutting > 0 or lost == 1 then commit(ARGV[1]) end -- its first write fails if the leases are of another type
return {codes, seen()}
