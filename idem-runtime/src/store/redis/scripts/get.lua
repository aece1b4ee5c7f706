-- One step, so that the record and the time it is judged by belong together.
return {string.format('%.0f', now), redis.call('GET', key)}
