-- ARGV: 1 token  2 epoch and attempt, packed, 3 fingerprint: for a record that vanished  4 ttl ms  5 outcome  6 channel
-- Most often it is the attempt that runs, and nobody waits: all but state, times and outcome stays as it is.
local head = redis.call('GETRANGE', KEYS[1], 0, 181)
-- Shorter than that is the whole record.
if #head < 182 and #head > 54 and string.find(head, '^\1P[01]0') and string.sub(head, 5, 20) == ARGV[1] then
  local expires, prints, outcome = struct.unpack('>I8I2I4', head, 41)
  local clock = redis.call('TIME')
  local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
  if #head == 54 + prints and outcome == 0 and expires > now then
    local ends = now + ARGV[4]
    local record = '\1C' .. string.sub(head, 3, 32) .. struct.pack('>I8I8I2I4', 0, ends, prints, #ARGV[5])
      .. string.sub(head, 55) .. ARGV[5]
    redis.call('SET', KEYS[1], record, 'PXAT', string.format('%d', ends - 1))
    return {'done'}
  end
end
