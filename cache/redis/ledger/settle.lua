-- Settles. ARGV: ID, actual amounts (4), nonce.
local id, nonce = ARGV[1], ARGV[6]
local actual = {}
for i = 1, 4 do actual[i] = tonumber(ARGV[1 + i]) end
local value = redis.call('HGET', open, id)
local score = redis.call('ZSCORE', closed, id)
local l, kind, fields
if value then l, kind = decode(value, id) end
if l then fields = fields_of(l, kind) end
load(fields or {})
local code
if value then
  if l then settle(id, l, fields, actual, 1, false) end
  code = 'settled'
elseif score then
  code = tonumber(score) % 2 == 1 and 'expired' or 'repeated'
else
  shutting[1] = {id, false}
  code = 'unknown'
end
if bad then return corrupt() end
if #shutting > 0 then commit(nonce) end -- its first write fails if the leases are of another type
return code
