-- The record, one packed string, big-endian; `Header` in record.rs says the same.
-- Every script has this part before its own. Times are milliseconds of this server's clock, epochs microseconds.
local VERSION, HEADER = 1, 54
local key = KEYS[1]
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

-- Takes apart a record of `size` bytes that begins with `head`: false and why, if it can't be read.
local function parse(head, size)
  if size > 0 and string.byte(head) ~= VERSION then return false, 'version' end
  if size < HEADER then return false, 'damaged' end
  local _, state, hold, waited, token, epoch, attempt, lease, expires, prints, outcome =
    struct.unpack('>Bc1c1c1c16I8I4I8I8I2I4', head)
  if state ~= 'C' and (outcome > 0 or (state ~= 'P' and state ~= 'U')) or prints == 0
    or (hold ~= '0' and hold ~= '1') or (waited ~= '0' and waited ~= '1') or size ~= HEADER + prints + outcome then
    return false, 'damaged'
  end
  local body = HEADER + prints
  return {
    live = expires > now, state = state, hold = hold, waited = waited, token = token, epoch = epoch, attempt = attempt,
    names = string.sub(head, 21, 32), lease = lease, body = body,
    print = #head < body and redis.call('GETRANGE', key, HEADER, body - 1) or string.sub(head, HEADER + 1, body),
  }
end

-- What is stored, without its outcome: nil for nothing. Expired records are not `live`.
local function read()
  local head = redis.call('GETRANGE', key, 0, 181)
  if #head == 0 then return nil end
  return parse(head, #head < 182 and #head or redis.call('STRLEN', key))
end

-- `names` is epoch and attempt, packed, since a Lua number holds 53 bits only.
local function pack(state, hold, waited, token, names, lease, expires, print, outcome)
  return struct.pack('>Bc1c1c1c16c12I8I8I2I4', VERSION, state, hold, waited, token, names, lease, expires, #print, #outcome)
    .. print .. outcome
end

-- When the key goes: it is alive at its own expiry millisecond, a record is not. Hence the one less.
local function last(expires)
  return string.format('%d', expires - 1)
end

-- The answer to a settled record. Who waits hears of it on `channel`, or from the caller where there is none.
local function settled(old, channel)
  if not (old and old.live and old.waited == '1') then return {'done'} end
  if channel == '' then return {'done', 'waited'} end
  -- Settled is settled, even where publishing is forbidden: waiters poll too.
  redis.pcall('PUBLISH', channel, string.sub(key, -32))
  return {'done'}
end

