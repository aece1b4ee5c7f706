-- ARGV: 1 token  2 hold 0|1  3 lease ms  4 ttl ms  5 waiting 0|1  6.. fingerprints, newest format first
local token, hold, lease, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local old, why = read()
if old == false then return {'corrupt', why} end
local epoch, attempt, waited = micros, 1, '0'

if old and old.live and not (old.state == 'P' and old.token == token) then
  -- A write that changes nothing, so that a server that may not write decides nothing either: what a replica or a
  -- primary cut off from its replicas holds may be old.
  redis.call('PEXPIREAT', key, string.format('%.0f', old.expires - 1), 'NX')
  local same = false
  for i = 6, #ARGV do same = same or old.print == ARGV[i] end
  if not same then return {'mismatch', old.print} end
  if old.state == 'C' then return {'replay', redis.call('GETRANGE', key, old.body, -1)} end
  if old.state == 'P' and old.lease > now then
    -- Not marked, as on a full server, the record is still found by polling.
    if ARGV[5] == '1' and old.waited == '0' then redis.pcall('SETRANGE', key, 3, '1') end
    return {'in_progress', old.lease - now}
  end
  if old.state == 'U' or old.hold == '1' or hold == '1' then return {'unknown'} end
  epoch, attempt, waited = math.max(micros, old.epoch + 1), math.min(old.attempt + 1, 4294967295), old.waited
elseif old and old.live then
  epoch, attempt, waited = old.epoch, old.attempt, old.waited
elseif old then
  epoch = math.max(micros, old.epoch + 1)
end

local names = struct.pack('>I8I4', epoch, attempt)
if not write(old, 'P', hold, waited, token, names, now + lease, now + lease + ttl, ARGV[6], '') then
  return {'corrupt', 'damaged'}
end
return {'owner', string.format('%.0f', epoch), attempt}
