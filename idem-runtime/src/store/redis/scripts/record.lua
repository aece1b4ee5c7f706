-- The record, one packed string, big-endian; `Header` in record.rs says the same.
-- Every script starts with this part. Times are milliseconds of this server's clock, epochs microseconds.
local VERSION, HEADER, LAYOUT = 1, 54, '>Bc1c1c1c16I8I4I8I8I2I4'
local key = KEYS[1]
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

-- What is stored: nil for nothing, or false and why it can't be read. Expired records are not `live`.
local function read()
  local head = redis.call('GETRANGE', key, 0, 181)
  if #head == 0 then return nil end
  if string.byte(head) ~= VERSION then return false, 'version' end
  if #head < HEADER then return false, 'damaged' end
  local _, state, hold, waited, token, epoch, attempt, lease, expires, prints, outcome = struct.unpack(LAYOUT, head)
  if not string.find(state .. hold .. waited, '^[PCU][01][01]$') or (state ~= 'C' and outcome > 0)
    or prints == 0 or redis.call('STRLEN', key) ~= HEADER + prints + outcome then
    return false, 'damaged'
  end
  local body = HEADER + prints
  local print = #head < body and redis.call('GETRANGE', key, HEADER, body - 1) or string.sub(head, HEADER + 1, body)
  return {
    live = expires > now, state = state, hold = hold, waited = waited, token = token, epoch = epoch, attempt = attempt,
    lease = lease, expires = expires, print = print, body = body, names = string.sub(head, 21, 32),
  }
end

-- Stores a record over `old`. `names` is epoch and attempt, packed, since a Lua number holds 53 bits only.
-- A key is alive at its own expiry millisecond, a record is not: hence the one less.
local function write(old, state, hold, waited, token, names, lease, expires, print, outcome)
  local value = struct.pack('>Bc1c1c1c16', VERSION, state, hold, waited, token) .. names
    .. struct.pack('>I8I8I2I4', lease, expires, #print, #outcome) .. print .. outcome
  local at = string.format('%.0f', expires - 1)
  if old then return redis.call('SET', key, value, 'PXAT', at) end
  -- Where nothing was read there is nothing, or an empty string that no version of ours wrote.
  return redis.call('SET', key, value, 'PXAT', at, 'NX')
end

-- The answer to a settled record. Who waits hears of it on `channel`, or from the caller where there is none.
local function settled(old, channel)
  if not (old and old.live and old.waited == '1') then return {'done'} end
  if channel == '' then return {'done', 'waited'} end
  -- Settled is settled, even where publishing is forbidden: waiters poll too.
  redis.pcall('PUBLISH', channel, string.sub(key, -32))
  return {'done'}
end

