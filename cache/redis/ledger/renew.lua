-- Renews. ARGV: time, ID, lease (ms), nonce.
local id = ARGV[2]
begin(ARGV[1])
if redis.call('HEXISTS', open, id) == 0 then return 0 end
redis.call('ZSCORE', leases, id)
redis.call('ZSCORE', closed, id)
pass()
if bad then return corrupt() end
S[AT], S[RUN] = now, run
commit(ARGV[4])
local deadline = max(tonumber(redis.call('ZSCORE', leases, id)) or 0, now + tonumber(ARGV[3]))
redis.call('ZADD', leases, text(deadline), id)
return 1
