-- ARGV: 1 token  2 channel
local old, why = read()
if old == false then return {'corrupt', why} end
if not (old and old.live) then return {'done'} end
if old.state ~= 'P' or old.token ~= ARGV[1] then return {'lost'} end
redis.call('DEL', key)
return settled(old, ARGV[2])
