-- ARGV: 1 token  2 hold 0|1  3 lease ms  4 ttl ms  5 waiting 0|1  6.. fingerprints, newest format first
local token, hold = ARGV[1], ARGV[2]
local lease = now + tonumber(ARGV[3])
local expires = lease + tonumber(ARGV[4])

-- Most claims are of nothing yet. And trying to write first makes sure that a server which may not write decides nothing
-- either: what a replica, or a primary cut off from its replicas, holds may be old.
local names = struct.pack('>I8I4', micros, 1)
local fresh = pack('P', hold, '0', token, names, lease, expires, ARGV[6], '')
local stored = redis.pcall('SET', key, fresh, 'NX', 'GET', 'PXAT', last(expires))
if not stored then return {'owner', names} end
if type(stored) == 'table' then
  -- A full server takes no record, and still answers from those it has.
  local held = string.find(stored.err, '^OOM') and redis.call('GET', key)
  if not held then return stored end
  stored = held
end

local old, why = parse(stored, #stored)
if not old then return {'corrupt', why} end
local epoch, attempt, waited = math.max(micros, old.epoch + 1), 1, '0'
if old.live and old.state == 'P' and old.token == token then
  epoch, attempt, waited = old.epoch, old.attempt, old.waited
elseif old.live then
  local same = false
  for i = 6, #ARGV do same = same or old.print == ARGV[i] end
  if not same then return {'mismatch', old.print} end
  if old.state == 'C' then return {'replay', string.sub(stored, old.body + 1)} end
  if old.state == 'P' and old.lease > now then
    -- Where it can't be marked, as on a full server, its end is still found by polling.
    if ARGV[5] == '1' and old.waited == '0' then redis.pcall('SETRANGE', key, 3, '1') end
    return {'in_progress', old.lease - now}
  end
  if old.state == 'U' or old.hold == '1' or hold == '1' then return {'unknown'} end
  attempt, waited = math.min(old.attempt + 1, 4294967295), old.waited
end
names = struct.pack('>I8I4', epoch, attempt)
redis.call('SET', key, pack('P', hold, waited, token, names, lease, expires, ARGV[6], ''), 'PXAT', last(expires))
return {'owner', names}
