-- What a replica remembers of a record, and how a record that lost some of that is raised to
-- it again.

-- What the caller is to remember: the sequence number, the time and the run at which the record
-- was last written, the buckets (3), the runs up to which they have drained (3), the latest day
-- and the latest month with what was spent in each (4), and the record's name.
local function seen()
  local d, m = max(S[DAYS], S[DAYS + 1]), max(S[MONTHS], S[MONTHS + 1])
  local of_day, of_month = 'd' .. text(d), 'm' .. text(m)
  load({of_day, of_month})
  local s = {S[SEQ], S[AT], S[RUN]}
  for i = 0, 2 do s[4 + i], s[7 + i] = S[FILL + i], S[SINCE + i] end
  s[10], s[15] = d, m
  for u = 1, 4 do s[10 + u], s[15 + u] = lists[of_day][u], lists[of_month][u] end
  s[20] = born or ''
  return s
end

local lost = 0 -- 1: the record has lost what the caller remembers

-- A record with another name, or an older sequence number, than the caller has seen is a new
-- beginning or an old copy.
local function is_lost(name, seq)
  return name ~= '' and (born ~= name or S[SEQ] < tonumber(seq))
end

-- Gives back what an old copy holds: it may have been settled after the copy was made. What is
-- still open is charged when it is settled.
local function forget_leases()
  redis.call('ZCARD', leases) -- fails where the key is of another type
  for slot = 0, 1 do
    for p, at in pairs({d = DAYS, m = MONTHS}) do
      local name = p .. text(S[at + slot])
      if S[at + slot] > 0 then
        load({name})
        for u = 5, 8 do lists[name][u] = 0 end
        dirty[name] = true
      end
    end
  end
  S[SLOTS], forgotten = 0, true
end

-- Raises a record that is_lost to what the caller remembers of it: the sequence number, and then
-- in one text the rest that seen tells, and the limits of the buckets (3). What was held is not
-- counted: it is charged when it is settled. The time has begun; pass follows.
local function restore(name, seq, rest, limits, on_lost)
  local m = {}
  for part in string.gmatch(rest, '[^,]+') do m[#m + 1] = tonumber(part) end
  if #m ~= 21 or m[14] ~= month then return end -- nothing of it holds any more
  lost = 1
  if on_lost == 'refuse' then return end
  if born == name then forget_leases() end
  S[SEQ] = max(S[SEQ], tonumber(seq))
  if S[AT] == 0 then S[AT] = now end
  run = S[RUN] + max(0, now - S[AT])
  for i = 0, 2 do
    local limit = limits and limits[i + 1] or m[19 + i]
    if limit > 0 then
      local passed = max(0, m[2] - m[6 + i]) + max(0, now - m[1])
      local fill = max(0, min(m[3 + i], 2 * limit * MINUTE) - limit * min(passed, 2 * MINUTE))
      S[FILL + i] = max(drained(i, limit), fill)
      S[SINCE + i] = run
    end
  end
  local function raise(to, from)
    local p = lists[to]
    for u = 1, 4 do p[u] = max(p[u], m[from + u]) end
    dirty[to] = true
  end
  ensure(MONTHS, 'm', month)
  raise(this_month, 14)
  if m[9] == day then
    ensure(DAYS, 'd', day)
    raise(today, 9)
  end
end

