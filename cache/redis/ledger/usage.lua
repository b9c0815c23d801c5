-- Tells what was used. ARGV: time, limits of the buckets (3), nonce.
local limits = {}
for i = 1, 3 do limits[i] = tonumber(ARGV[1 + i]) end
begin(ARGV[1])
redis.call('ZSCORE', closed, '')
pass()
expire()
local kinds, names = {}, {}
for _, p in ipairs({today, this_month}) do
  for _, kind in ipairs(KINDS) do names[#names + 1] = p .. ':' .. kind end
end
load(names)
for i, name in ipairs(names) do
  local is_kept = i <= #KINDS and kept(DAYS, day) or i > #KINDS and kept(MONTHS, month)
  for u = 1, 4 do kinds[#kinds + 1] = is_kept and lists[name][u] or 0 end
end
if bad then return corrupt() end
if #expired > 0 or shift < 0 then
  S[AT], S[RUN] = now, run
  commit(ARGV[5])
end
return {'', #expired, 0, state(limits), kinds}
