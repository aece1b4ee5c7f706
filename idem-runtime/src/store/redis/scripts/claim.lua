-- Follows replay.lua, and has its arguments. `FULL` is for a server that takes no new record and still answers from
-- those it has.
local token, hold = ARGV[1], ARGV[2]
local lease = now + ARGV[3]
local expires = lease + ARGV[4]
local epoch, attempt, waited = micros, 1, '0'
if stored then
  local old, why = parse(stored, #stored)
  if not old then return {'corrupt', why} end
  epoch = math.max(micros, old.epoch + 1)
  if old.live and old.state == 'P' and old.token == token then
    epoch, attempt, waited = old.epoch, old.attempt, old.waited
  elseif old.live then
    local same = false
    for i = 6, #ARGV do same = same or old.print == ARGV[i] end
    if not same then return {'mismatch', old.print} end
    if old.state == 'C' then return {'replay', string.sub(stored, old.body + 1)} end
    if old.state == 'P' and old.lease > now then
      if ARGV[5] == '1' and old.waited == '0' then redis.call('SETRANGE', key, 3, '1') end
      return {'in_progress', old.lease - now}
    end
    if old.state == 'U' or old.hold == '1' or hold == '1' then return {'unknown'} end
    attempt, waited = math.min(old.attempt + 1, 4294967295), old.waited
  end
end
if FULL then return redis.error_reply("OOM the server takes no new record: it uses more than 'maxmemory'") end
local names = struct.pack('>I8I4', epoch, attempt)
redis.call('SET', key, pack('P', hold, waited, token, names, lease, expires, ARGV[6], ''), 'PXAT', last(expires))
return {'owner', names}
