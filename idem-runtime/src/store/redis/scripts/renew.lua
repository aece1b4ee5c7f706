-- ARGV: 1 token  2 lease ms
local old, why = read()
if old == false then return {'corrupt', why} end
if not (old and old.live and old.state == 'P' and old.token == ARGV[1]) then return {'lost'} end
redis.call('SETRANGE', key, 32, struct.pack('>I8', now + tonumber(ARGV[2])))
return {'done'}
