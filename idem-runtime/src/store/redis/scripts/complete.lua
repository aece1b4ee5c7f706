-- Follows running.lua, and has its arguments.
local old, why = read()
if old == false then return {'corrupt', why} end
local hold, names, print = '0', ARGV[2], ARGV[3]
if old and old.live then
  if old.token ~= ARGV[1] or old.state == 'U' then return {'lost'} end
  if old.state == 'C' then return {'done'} end
  hold, names, print = old.hold, old.names, old.print
end
local expires = now + tonumber(ARGV[4])
local record = pack('C', hold, '0', ARGV[1], names, 0, expires, print, ARGV[5])
if old then
  redis.call('SET', key, record, 'PXAT', last(expires))
elseif not redis.call('SET', key, record, 'NX', 'PXAT', last(expires)) then
  -- An empty string, that no version of ours wrote.
  return {'corrupt', 'damaged'}
end
return settled(old, ARGV[6])
