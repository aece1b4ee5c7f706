-- One step, so that the record and the time it is judged by belong together.
return {string.format('%d', now), redis.call('GET', key)}
