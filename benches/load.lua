-- wrk -s load.lua URL -- fixed|fresh|keyless KEY [COOKIE]: a POST of one body, with one key, a new key each time, or none.
local body = '{"account":"acct_1N8r2fE4","amount":129900,"currency":"eur","reference":"order 2026-000042"}'
local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init(args)
  local mode, key, cookie = args[1], args[2], args[3]
  local head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
  if cookie then head = head .. "Cookie: " .. cookie .. "\r\n" end
  local tail = "\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
  if mode == "fresh" then
    local before, count = head .. "Idempotency-Key: " .. key .. "-" .. number .. "-", 0
    request = function()
      count = count + 1
      return before .. count .. tail
    end
  else
    local whole = head .. (mode == "keyless" and "X-Other: " or "Idempotency-Key: ") .. key .. tail
    request = function() return whole end
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d\n", summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
