-- ARGV: 1 token  2 ttl ms  3 channel
local old, why = read()
if old == false then return {'corrupt', why} end
if not (old and old.live) or old.state == 'C' or old.token ~= ARGV[1] then return {'lost'} end
if old.state == 'U' then return {'done'} end
local expires = now + tonumber(ARGV[2])
local record = pack('U', old.hold, '0', old.token, old.names, 0, expires, old.print, '')
redis.call('SET', key, record, 'PXAT', last(expires))
return settled(old, ARGV[3])
