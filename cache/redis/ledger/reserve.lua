-- Reserves. ARGV: time, ID, lease (ms), kind, estimate (4), limits (8), nonce, and what the
-- caller remembers of the record: its name ('' for nothing), sequence number, and the rest as
-- restore takes it. At last what is done about a record that is not what the caller remembers:
-- 'refuse', or ''.
local id, lease, kind, nonce, on_lost = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[17], ARGV[21]
local estimate, limits = {}, {}
for i = 1, 4 do estimate[i] = tonumber(ARGV[4 + i]) end
for i = 1, 8 do limits[i] = tonumber(ARGV[8 + i]) end
begin(ARGV[1])
local slots = min(estimate[1], 1)

-- Lists of what is kept of this day and month.
local function periods()
  return kept(DAYS, day) and lists[today] or numbers(nil, 8), kept(MONTHS, month) and lists[this_month] or numbers(nil, 8)
end

local function has_room()
  local d, m = periods()
  for i = 0, 2 do
    local limit, takes = limits[i + 1], estimate[i + 1]
    if limit > 0 and takes > 0 and (takes > limit or drained(i, limit) + takes * MINUTE > limit * MINUTE) then return false end
  end
  local function fits(w, p, u)
    return limits[w] == 0 or estimate[u] == 0 or p[u] + p[4 + u] + estimate[u] <= limits[w]
  end
  return fits(4, d, 2) and fits(5, d, 3) and fits(6, d, 4) and fits(7, m, 4)
    and (limits[8] == 0 or slots == 0 or S[SLOTS] + 1 <= limits[8])
end

local function countable()
  local d, m = periods()
  for u = 1, 4 do
    if d[4 + u] + estimate[u] > MAX or m[4 + u] + estimate[u] > MAX then return false end
  end
  return true
end

local function grant()
  for i = 0, 2 do
    local limit = limits[i + 1]
    if limit > 0 then
      S[FILL + i] = drained(i, limit) + estimate[i + 1] * MINUTE
      S[SINCE + i] = run
    end
  end
  ensure(DAYS, 'd', day)
  ensure(MONTHS, 'm', month)
  local d, m = lists[today], lists[this_month]
  for u = 1, 4 do
    d[4 + u] = d[4 + u] + estimate[u]
    m[4 + u] = m[4 + u] + estimate[u]
  end
  dirty[today], dirty[this_month] = true, true
  S[SLOTS] = S[SLOTS] + slots
  S[SEQ] = S[SEQ] + 1
  return string.format('[%d,%d,%d,%d,%d,%d,%d,%d,%d,%d]%s', run, day, month,
    estimate[1], estimate[2], estimate[3], estimate[4], limits[1], limits[2], limits[3], kind)
end

if is_lost(ARGV[18], ARGV[19]) then restore(ARGV[18], ARGV[19], ARGV[20], limits, on_lost) end
if lost == 1 and on_lost == 'refuse' and not bad then return {'lost', 0, 1, state(limits), seen()} end
pass()
if not forgotten then expire() end
local is_open = redis.call('HEXISTS', open, id) == 1 and not expired[id] and not forgotten
local was_settled = not is_open and (expired[id] or redis.call('ZSCORE', closed, id))
if bad then return corrupt() end
local code, granted = 'refused', nil
if is_open then
  code = 'granted'
elseif was_settled then
  code = 'closed'
elseif has_room() then
  code = countable() and 'granted' or 'range'
end
if code == 'granted' and not is_open then granted = grant() end
if bad then return corrupt() end
if granted or lost == 1 or #expired > 0 or shift < 0 then
  S[AT], S[RUN] = now, run
  commit(nonce)
end
if granted then
  redis.call('ZADD', leases, text(now + lease), id)
  redis.call('HSET', open, id, granted)
  if renewed or S[SLOTS] <= 1 and redis.call('HLEN', open) == 1 then -- these two keys are new
    redis.call('PEXPIRE', leases, KEEP)
    redis.call('PEXPIRE', open, KEEP)
  end
end
return {code, #expired, lost, state(limits), seen()}
