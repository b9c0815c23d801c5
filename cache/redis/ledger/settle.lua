-- Settles calls of a tenant. ARGV: nonce, then of each call its ID and actual amounts (4).
-- The same ID may come twice.
local ids = {}
for i = 2, #ARGV, 5 do ids[#ids + 1] = ARGV[i] end
redis.call('ZCARD', closed) -- fails where the key is of another type
local held, calls, names, seen = redis.call('HMGET', open, unpack(ids)), {}, {}, {}
for i = 1, #ids do
  local l, kind
  if held[i] then l, kind = decode(held[i], ids[i]) end
  if l then
    calls[i] = {l, fields_of(l, kind)}
    for _, name in ipairs(calls[i][2]) do
      if not seen[name] then seen[name], names[#names + 1] = true, name end
    end
  end
end
load(names)
local codes, first = {}, {} -- first: what was done with an ID
for i, id in ipairs(ids) do
  local call = calls[i]
  local score = not held[i] and not first[id] and redis.call('ZSCORE', closed, id)
  if first[id] then
    codes[i] = first[id] == 'expired' and 'expired' or 'repeated'
  elseif held[i] then
    local actual = {}
    for u = 1, 4 do actual[u] = tonumber(ARGV[5 * i - 3 + u]) end
    if call then settle(id, call[1], call[2], actual, 1, false) end
    codes[i] = 'settled'
  elseif score then
    codes[i] = tonumber(score) % 2 == 1 and 'expired' or 'repeated'
  else
    shutting[#shutting + 1] = {id, false}
    codes[i] = 'unknown'
  end
  first[id] = first[id] or codes[i]
end
if bad then return corrupt() end
if #shutting > 0 then commit(ARGV[1]) end -- its first write fails if the leases are of another type
return codes
