-- Adds a batch to what a tenant used in a month. KEYS: the rows (hash), and the number of the last
-- batch of this writer. ARGV: number, most rows, time to live of the rows (ms), then of each row
-- its kind, its name, and its amounts (4). A field is a unit, a kind and a name.
local UNITS = {'requests', 'tokens', 'injected', 'money'}
local rows, last = KEYS[1], KEYS[2]
if (tonumber(redis.call('GETRANGE', last, 0, 32)) or 0) >= tonumber(ARGV[1]) then return 0 end
local n = redis.call('HINCRBY', rows, 'rows', 0) -- fails before anything is written, if rows cannot be counted
redis.call('SET', last, ARGV[1], 'PX', '2592000000') -- 30 days, in case the writer does not reach us for as long
for i = 4, #ARGV, 6 do
  local row = ARGV[i] .. '\t' .. ARGV[i + 1]
  if redis.call('HEXISTS', rows, 'row\t' .. row) == 0 then
    if n >= tonumber(ARGV[2]) then row = ARGV[i] .. '\tother\tother' end
    if redis.call('HSET', rows, 'row\t' .. row, '1') == 1 then n = redis.call('HINCRBY', rows, 'rows', 1) end
  end
  for u, unit in ipairs(UNITS) do
    local amount = ARGV[i + 1 + u]
    if amount ~= '0' then redis.call('HINCRBY', rows, unit .. '\t' .. row, amount) end
  end
end
redis.call('PEXPIRE', rows, ARGV[3])
return 1
