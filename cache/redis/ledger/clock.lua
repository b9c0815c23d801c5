-- What the scripts share by which time passes: they begin days and months, drain buckets
-- and end leases. Settling does none of it.

-- The number of the month, from January 1970 on, that a number of days since 1970 is in.
local function month_of(days)
  local z = days + 719468 -- from 1 March of the year 0
  local era = floor(z / 146097)
  local doe = z - era * 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local mp = floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return (year - 1970) * 12 + month - 1
end

local now, day, month, today, this_month

-- The time is Redis's own; tests pass one.
local function begin(given)
  if given ~= '' then
    now = tonumber(given)
  else
    local t = redis.call('TIME')
    now = tonumber(t[1]) * 1000 + floor(tonumber(t[2]) / 1000)
  end
  day = floor(now / DAY)
  month = month_of(day)
  today, this_month = 'd' .. day, 'm' .. month
  load({today, this_month})
end

-- Begins a day or month, in place of the older one that is kept.
local function ensure(at, p, i)
  if kept(at, i) then return end
  local slot = S[at + 1] < S[at] and at + 1 or at
  local old = p .. text(S[slot])
  gone[#gone + 1] = old
  lists[old], dirty[old] = nil, nil
  for _, kind in ipairs(KINDS) do
    local name = old .. ':' .. kind
    gone[#gone + 1] = name
    lists[name], dirty[name] = nil, nil
  end
  S[slot] = i
  lists[p .. i], dirty[p .. i] = numbers(nil, 8), true
  renewed = true
end

local run, expired = 0, {}

-- Time passes to now. Where the clock was set back, the ends of leases are too.
local function pass()
  local at = S[AT]
  run = S[RUN]
  if at == 0 then return end
  if now >= at then
    run = run + now - at
  else
    shift = now - at
  end
end

-- Charges the estimates of leases that have ended, oldest first, some of them.
local function expire()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', text(now - shift), 'LIMIT', 0, MAX_EXPIRED)) do
    local l, kind = decode(redis.call('HGET', open, id), id)
    if l then
      local fields = fields_of(l, kind)
      load(fields)
      settle(id, l, fields, l, 4, true)
    end
    expired[#expired + 1] = id
    expired[id] = true
  end
end

-- What a bucket holds now; i counts from 0.
local function drained(i, limit)
  if limit == 0 then return 0 end
  local passed = min(run - S[SINCE + i], 2 * MINUTE)
  return max(0, min(S[FILL + i], 2 * limit * MINUTE) - limit * passed)
end

-- What the ledger tells of the tenant: the time, the buckets, then spent and held of the
-- day and of the month, and parallel requests.
local function state(limits)
  local s = {now, drained(0, limits[1]), drained(1, limits[2]), drained(2, limits[3])}
  local d = kept(DAYS, day) and lists[today] or numbers(nil, 8)
  local m = kept(MONTHS, month) and lists[this_month] or numbers(nil, 8)
  for u = 1, 8 do s[4 + u], s[12 + u] = d[u], m[u] end
  s[21] = S[SLOTS]
  return s
end

