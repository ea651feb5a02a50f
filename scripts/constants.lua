-- What the numbers of the scripts mean. compose.go writes each into the scripts in place of its
-- name, so that a name costs nothing when a script runs. Lengths and positions are in bytes; a
-- position counts from 1, as string.sub does.

-- Lengths.
local STAMP_LENGTH = 16 -- the server's microseconds since 1970
local SESSION_LENGTH = 22 -- a session
local ATTEMPT_LENGTH = 19 -- an attempt
local ID_LENGTH = 41 -- session and attempt
local TICKET_LENGTH = 42 -- id and mode
local WEIGHT_END = 51 -- a semaphore's ticket: id, and weight as 10 digits
local NUMBER_LENGTH = 20 -- the number of a heartbeat
local MAX_LABEL = 64 -- the longest label
local MAX_TAIL = 73 -- the longest label, and the longest life of a hold behind it

-- Positions in the value of a holder key: 'sb1' and kind, stamp, id, mode, mark, label.
local STAMP_START = 5
local STAMP_END = 20 -- a released lock has no more than this
local ID_START = 21
local SESSION_END = 42
local ID_END = 61
local MODE_AT = 62
local MARK_AT = 63
local WAITER_END = 83 -- of kind q, which has a waiter behind the id, and no mode and mark
local EPOCH_CHECKED_END = 36 -- of an epoch: 'sb1e', stamp, and the stamp of the last check
local NO_WAITER = '----------------------' -- the waiter of kind q, if no session waits

-- Positions in a field of heartbeats: life, number, listening, label.
local LIFE_END = 16
local NUMBER_END = 36
local LISTENING_AT = 37

-- Positions in the round of a latch: 'sb1', stamp, state, nonce, since, total, keep_ms; and in its
-- past, which has stamp, state and nonce of each round.
local ROUND_STAMP_END = 19
local STATE_AT = 20
local NONCE_START = 21
local NONCE_END = 31
local SINCE_END = 47
local TOTAL_END = 55
local ROUND_END = 65
local NONCE_LENGTH = 11
local TOTAL_LENGTH = 8
local KEEP_LENGTH = 10
local PAST_ROUND = 28 -- one round of the past
local PAST_LENGTH = 896 -- the longest past: 32 rounds
local WRITES_PER_LIFE = 60 -- a waiter's polls lengthen the key's life when this part of it is over

-- Positions in the value of an election: 'sb1e', id, number, value.
local RECORD_ID_START = 5
local RECORD_ID_END = 45
local RECORD_NUMBER_END = 61

-- How long keys are kept.
local GRACE_MS = 15000 -- a key outlives its hold by this: more than between two polls of a waiter
local QUEUE_TTL_MS = 600000 -- a queue, and what a lost mark is remembered for
local NOTED_LIFE_MS = 30000 -- a hold that was given a longer life says so
local FENCE_TTL_MS = 86400000 -- the fence of a redlock
local EPOCH_TTL_MS = 604800000 -- the epoch of a redlock's server: a week
local RESIZED_TTL_MS = 3600000 -- a semaphore whose capacity was set, at the least

-- Times of sessions that wait.
local MAX_LIFE_US = 30000000 -- the longest life that a heartbeat gives
local RECENT_US = 1800000 -- a session is recent if its life has this left
local GONE_AFTER_US = 10000000 -- tickets of a dead session are removed after this
local FORGET_AFTER_US = 60000000 -- the field of a dead session is removed after this
local MIN_GRANT_US = 1000000 -- the shortest hold that is granted to a ticket
local EPOCH_CHECK_US = 2000 -- no server ends, starts and loads its data within this

-- Tokens.
local FIRST_SECOND = '1735689600' -- tokens count from 2025-01-01
local TOKEN_BLOCK = 256 -- the microseconds of tokens that belong to one hold of a lock
local MAX_BLOCK = 1024 -- the same of permits, at the most
local AHEAD_STEP_US = 20000 -- a block is a quarter as long for each of these ahead of the clock
local MAX_AHEAD_US = 80000 -- from here on a block is one microsecond
local FIRST_STAMP = '1000000000000000' -- scores below it are no ends of holds
local NO_STAMP = '0000000000000000' -- before every stamp

-- How much one call does.
local SEARCH_PAGE = 128 -- the tickets that a search reads at once
local SEARCH_PAGES = 8 -- the pages of one search
local HEAD_PAGE = 64 -- the tickets among which a recent session is preferred
local GONE_PAGE = 256 -- the tickets of dead sessions that are removed before a search
local CANDIDATES_PAGE = 1000 -- the tickets among which a hand-over looks for a candidate
local FOREIGN_LIMIT = 129 -- the tickets of other kinds of lock that are dropped, and one
local MAX_GRANTS = 128 -- the grants of one call: about a millisecond
local ENDED_PAGE = 1000 -- the holds that have ended
local MANY_SESSIONS = 64 -- from here on fields of dead sessions are removed
local SESSIONS_SAMPLE = 16 -- how many fields are looked at for that
local DEADLINES_PAGE = 1000 -- waiters of Redisson's fair lock whose deadline is over
local PERMITS_PAGE = 100 -- Redisson's permits that have ended

-- Arguments.
local MAX_DIGITS = 15 -- the digits of a duration: a greater number could not be written exactly
local MAX_NUMBER = 1e15 -- the first number that has more

-- Redisson's permits.
local PERMIT_LENGTH = 16 -- the id of a permit
local PERMIT_BASE = 12 -- what the ids of one hold have in common
local NEVER_MS = 922337203685477 -- a permit that ends later has no end

-- Units.
local US_PER_MS = 1000
local US_PER_SECOND = 1000000
local SECOND_DIGITS = 10 -- the first digits of a stamp are seconds
local MICRO_DIGITS = 6 -- and the others are microseconds
local MS_DIGITS = 13 -- the first digits of a stamp are milliseconds
local BYTE = 256

-- Shards: how much one call does, and what texts are as long as.
local SHARDS_A_CALL = 16 -- what one call grants, asks for, releases, takes from the dead
local NEWS_PAGE = 128 -- the shards of which a poll returns the news
local ROWS_PAGE = 512 -- the shards that a read returns
local TEXTS_JOINED = 128 -- so many of them are joined at once
local MAX_SHARDS = 65536 -- of a group
local MAX_MEMBER_WEIGHT = 1000
local MAX_SHARD_NAME = 64
local MAX_NAME_CHANGES = 64 -- the names that one call changes
local MAX_VALUE = 256 -- what observers read of a member
local GIVES_ALL = 1000000000 -- the score of a giver that has to give all it has: this, and its load
local MAX_BANS = 64 -- the members from which one shard may be kept
local SEARCH_FIRST = 8 -- what a search for a shard or a promise reads first
local SHARDS_PAGE = 64 -- the shards that a search reads then
local SEARCH_OTHERS = 2 -- the takers, or donors, that it reads behind the first
local MAX_SEARCHES = 6 -- those of one call that find nothing
local NEXT_TURN_US = 100000 -- after this a search reads other pages, takers and donors
local GOLDEN_STEP = 0.6180339887 -- by so much of all pages
local SQRT2_STEP = 0.4142135624 -- of all takers
local SQRT3_STEP = 0.7320508076 -- and of all donors
local NEWEST = '' -- the element of each key that says of which version the key is; no shard has this name
local NEWEST_ENTRY = 'z:' -- in the index the version is behind it
local NO_DIGEST = '-' -- the digest of a set of names while a caller lists it
local OTHER_DIGEST = '+' -- the same, and a name has left by itself meanwhile
local KNOWN_LENGTH = 37 -- what a member knows of a group, without the request: two stamps, a count
local LOSSES_LENGTH = 4
local WEIGHT_DIGITS = 4
local LIMIT_DIGITS = 5
local MAX_LOSSES = 9999

-- Positions in an entry of a release: stamp of the token, ending, pause, length of the name, name.
local ENDING_AT = 17
local PAUSE_START = 18
local PAUSE_END = 32
local NAME_LENGTH_END = 34

-- Times of shards.
local YOUNG_LIFE_US = 3000000 -- the lease of a new member; it grows with its age
local TAKER_RECENT_US = 3000000 -- only a member that was heard within this takes shards
local TAKER_PRESENT_US = 2000000 -- its share waits for it if it was not heard within this
local NEXT_POLL_US = 1100000 -- within this a member that lives is heard again
local TAKERS_PAGE = 8 -- the takers that a search for one that may have a shard reads at once
local SILENCE_US = 3000000 -- no script for so long: the server was away, or its clock jumped
local AMNESTY_US = 2000000 -- for so long after that no member is taken for dead
local FIRST_GRANT_US = 2000000 -- for so long a group that is new grants nothing
local PROVEN_US = 30000000 -- while members die young, younger ones wait for their first share
local NAMES_PATIENCE_US = 5000000 -- a member has so long to send its names
local CRASH_LOOP_US = 60000000 -- a member that dies younger than this makes the group settle longer
local POISON_US = 1000000 -- the pause of a shard whose third owner in a row died
local MAX_POISON_US = 300000000 -- the longest pause; an owner of this age shows it harmless
local GONE_ROW_US = 60000000 -- for so long observers read that a name has left the set
local GROUP_TTL_MS = 604800000 -- the keys of a group outlive its last use by this: a week
local RENEW_KEYS_US = 86400000000 -- if nothing changes, their lives are lengthened once in this
local SLOW_DRAIN_US = 10000000 -- a drain that takes longer does not count as a move under way
local HUNG_DRAIN_US = 60000000 -- nor, from then on, for the member that the shard is promised to
local LEAST_OWNED_US = 1000000 -- from a grant to the next one, if the owner gave the shard away
local RECHECK_US = 5000000 -- a shard that each member gave away is looked at again after this
local RECHECK_EACH_US = 10000 -- and after this for each shard that waits
local MIN_MOVES = 16 -- the moves that may be under way, at the least
local MOVES_PART = 10 -- if it is not set: one of so many shards
