-- redlock/epoch
-- Compares the life of the server with the one that its epoch has, and begins the epoch if it is
-- missing, has another life, or is of the future. It returns the life.
--
-- uses     ago_us, epoch, now, recorded, since
-- defines  check_epoch
local function check_epoch()
  -- By pcall: if the right to INFO is missing, or the reply has no life, an epoch that survived a
  -- restart counts.
  local info = redis.pcall('INFO', 'server')
  local life = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
  if life ~= '' then
    -- A process that was a replica, and took over again, has the data of another one. It has another
    -- one's id, too, which is zeros in one that never took over.
    local replication = redis.pcall('INFO', 'replication')
    life = life .. (type(replication) == 'string' and string.match(replication, 'master_replid2:(%w*[1-9a-f]%w*)') or '')
  end
  if not recorded or since > now or life ~= '' and string.sub(recorded, EPOCH_CHECKED_END + 1) ~= life then
    since = now
    redis.call('SET', epoch, 'sb1e' .. now .. now .. life, 'PX', EPOCH_TTL_MS)
  elseif redis.call('PTTL', epoch) < EPOCH_TTL_MS / 2 then
    redis.call('SET', epoch, 'sb1e' .. since .. now .. string.sub(recorded, EPOCH_CHECKED_END + 1), 'PX', EPOCH_TTL_MS)
  elseif ago_us < 0 or ago_us >= EPOCH_CHECK_US then
    -- That it was compared is this process's alone: no replica has it, and no file that is
    -- replayed.
    redis.set_repl(redis.REPL_NONE)
    redis.call('SET', epoch, 'sb1e' .. since .. now .. string.sub(recorded, EPOCH_CHECKED_END + 1), 'KEEPTTL')
    redis.set_repl(redis.REPL_ALL)
  end
  return life
end
