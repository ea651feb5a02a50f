# SPDX-License-Identifier: Apache-2.0
"""A client of signalbox's default lock, by scripts/README.md and the headers of the scripts.

    async with Session("127.0.0.1", 6379, "folder/of/scripts") as session:
        async with session.lock("order/42", timeout=10) as hold:
            ...  # send hold.token with every write, and stop when hold.held() is False

It is for one server. It leaves out clusters (SPUBLISH, one key after TRYAGAIN, queue/heartbeat),
hashed names, lock/heartbeat (one heartbeat for many locks: here each attempt polls for its own),
lock/requeue (an attempt never hands its hold to another one), and the other kinds of lock.

The folder has lock/enter.lua and so on, as go run ./scripts/print lock/enter prints them. Timeouts
and leases are seconds, all other times microseconds. A blocked event loop blocks the renewals.
"""
import asyncio
import base64
import contextlib
import itertools
import os
import pathlib
import random
import re
import time

from redis import asyncio as redis, exceptions as errors

LIFE = 3_000_000  # for how long a heartbeat makes the session count as alive
KEEP_MS = 60_000  # how long the server remembers the last token of an idle lock
# Errors after which a call may be sent again: classes of redis-py, or the first word of the text.
AGAIN = (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError,
         getattr(errors, "OutOfMemoryError", ()))
REFUSED = tuple("MASTERDOWN CLUSTERDOWN TRYAGAIN BUSY NOREPLICAS MISCONF OOM MOVED ASK".split())


def encode(name):
    """Encodes a name (bytes or text) for keys."""
    name = name.encode() if isinstance(name, str) else name
    return re.sub(r"[%{}\x00-\x1f\x7f-\x9f\udc80-\udcff]",
                  lambda m: "".join("%%%02X" % b for b in m[0].encode("utf-8", "surrogateescape")),
                  name.decode("utf-8", "surrogateescape"))


def keys_of(prefix, name):
    return [prefix + "{" + encode(name) + "}:" + part for part in ("lock", "queue", "heartbeats")]


def b64(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def attempt_id(counter, rand):
    return b64(counter.to_bytes(6, "big") + rand)


def number_of(counter, rand):
    return "%012d" % counter + b64(rand)


def token_of(stamp):
    return 4 * (int(stamp) - 1735689600000000)


def deadline_of(sent, life):
    return sent + life - life // 50 - 2000


def split_grants(text):
    """Returns the grants of a message or a reply, each as attempt, stamp and number."""
    return [(text[i:i + 19], text[i + 19:i + 35], text[i + 35:i + 55])
            for i in range(0, len(text) - 54, 55)]


def clock():
    """Counts also while the machine is suspended, if the system has such a clock."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


class Session:
    """One client of the server. A process that was forked needs another one."""

    def __init__(self, host, port, folder, prefix="sb:", label=None):
        self.id, self.prefix, self.channel = b64(os.urandom(16)), prefix, prefix + "grants:"
        self.label = f"{os.uname().nodename[:50]}:{os.getpid()}" if label is None else label
        self.redis = redis.Redis(host=host, port=port, socket_timeout=1, retry=None,
                                 decode_responses=True)
        self.scripts = {
            name: self.redis.register_script(pathlib.Path(folder, name + ".lua").read_bytes())
            for name in ("lock/enter", "lock/poll", "lock/leave", "holder/renew")}
        self.counter = itertools.count(1)
        self.attempts = {}  # id -> Attempt, until nothing is left of it at the server
        self.numbers = {}  # number of a heartbeat -> its deadline
        self.offset = 0  # of the server's clock; the first lock/enter comes too late, and sets it
        self.subscribed = asyncio.Event()

    async def __aenter__(self):
        self.listener = asyncio.create_task(self._listen())
        await asyncio.wait([asyncio.create_task(self.subscribed.wait())], timeout=1)
        return self  # without a subscription, waits poll more often

    async def __aexit__(self, *_):
        """Waits until nothing is left at the server, for three seconds at most."""
        if self.attempts:
            await asyncio.wait([attempt.task for attempt in self.attempts.values()], timeout=3)
        self.listener.cancel()
        await self.redis.close()

    @contextlib.asynccontextmanager
    async def lock(self, name, timeout=None, lease=30.0):
        """Acquires a lock, and releases it at the end. A timeout of 0 does not queue.

        Raises TimeoutError; or at the end LockNotOwnedError if the lock was lost before, and
        LockError if the release has no reply. It is repeated in the background then.
        """
        end = float("inf") if timeout is None else clock() + (timeout or 1) * 1e6
        acquired = False
        while not acquired:
            attempt = Attempt(self, name, int(lease * 1000) * 1000, int(timeout != 0))
            try:
                await asyncio.wait([attempt.decided], timeout=(end - clock()) / 1e6)
                if attempt.decided.done():
                    attempt.decided.result()  # raises its error
                acquired = attempt.held()
                if acquired:
                    yield attempt
            finally:
                held, attempt.over = attempt.held(), True
                attempt.due.set()
                await attempt.left.wait()
            if not acquired and (timeout == 0 or clock() >= end):
                raise TimeoutError(f"{name} is held")
        if not held or attempt.released is False:
            raise errors.LockNotOwnedError(f"{name} was lost")
        if attempt.released is None:
            raise errors.LockError(f"the release of {name} is not confirmed")

    async def call(self, script, keys, *args):
        """Runs a script, and returns its reply."""
        reply = await self.scripts[script](keys, args)
        reply = [1, str(reply), reply] if isinstance(reply, int) else reply
        if reply[0] == -2:
            raise errors.ResponseError(f"{keys[0]} is in use by kind {reply[1]}")
        return reply

    def heartbeat(self):
        """Returns a fresh number. Its life counts from now, and it is sent after that."""
        self.numbers = {n: end for n, end in self.numbers.items() if end > clock()}
        number = number_of(next(self.counter), os.urandom(6))
        self.numbers[number] = deadline_of(clock(), LIFE)
        return number

    def grants(self, text):
        """Hands the grants of a message or a reply to their attempts."""
        for attempt, stamp, number in split_grants(text):
            if attempt in self.attempts:
                self.attempts[attempt].granted(stamp, self.numbers.get(number, 0), LIFE)

    def wake(self, holder=None):
        """Makes the next call due of all attempts, or of those for one lock."""
        for attempt in self.attempts.values():
            if holder in (None, attempt.keys[0]):
                attempt.due.set()

    async def _listen(self):
        """Reads messages. A connection that is silent for a second has to reply to a PING."""
        forced = self.prefix + "session:" + self.id
        while True:
            with contextlib.suppress(errors.RedisError, OSError):
                async with self.redis.pubsub() as pubsub:
                    await pubsub.subscribe(self.channel + self.id, forced)
                    silent = 0
                    while silent < 2:
                        message = await pubsub.get_message(timeout=1)
                        silent = 0 if message else silent + 1
                        if not message:
                            await pubsub.ping()
                        elif message["type"] == "subscribe" and message["data"] == 2:
                            self.subscribed.set()
                            self.wake()  # messages until now are lost
                        elif message["type"] == "message" and message["channel"] == forced:
                            self.wake(message["data"])  # the renewal finds out
                        elif message["type"] == "message":
                            self.grants(message["data"])
            self.subscribed.clear()
            await asyncio.sleep(random.uniform(0.05, 0.1))


class Attempt:
    """One request for a lock, from the first lock/enter until nothing is left of it."""

    def __init__(self, session, name, lease, queues):
        self.session, self.lease, self.queues = session, lease, queues
        self.keys = keys_of(session.prefix, name)
        self.id = attempt_id(next(session.counter), os.urandom(8))
        self.ticket = session.id + self.id + "f"
        self.sent = self.replied = 0  # how many lock/enter, and how many of them have a reply
        self.stamp, self.deadline, self.life = "", 0, 0  # of the grant that was believed
        self.over, self.released = False, None  # whether it leaves, and whether that ended a hold
        self.due = asyncio.Event()  # the next call is due at once
        self.decided = asyncio.Future()  # whether it has the lock or will not get it
        self.left = asyncio.Event()  # lock/leave was called, or is not needed
        session.attempts[self.id] = self
        self.task = asyncio.create_task(self._run())

    def held(self):
        """Reports whether the lock is held for certain."""
        return clock() < self.deadline

    def granted(self, stamp, deadline, life):
        """Believes a grant, or makes the next call due: a poll, or another leave."""
        if self.stamp and not self.over:
            return  # a message and a reply may bring the same grant
        same = [other for other in self.session.attempts.values() if other.keys == self.keys]
        if self.over or clock() >= deadline or any(other.stamp > stamp for other in same):
            self.due.set()
            return
        for other in same:
            other.deadline = 0  # at the server its hold is over
        self.stamp, self.deadline, self.life = stamp, deadline, life
        self.token = token_of(stamp)
        self.decided.set_result(None)

    async def _run(self):
        """Makes the calls, one after the other. Each returns when the next one is due."""
        delay, pause = 0, 5000
        while self.id in self.session.attempts:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.due.wait(), delay / 1e6)
            self.due.clear()
            call = (self.leave if self.over else self.renew if self.stamp
                    else self.poll if self.replied else self.enter)
            try:
                delay, pause = await call(), 5000
            except errors.RedisError as err:
                delay, pause = random.uniform(pause / 2, pause), min(2 * pause, 1_000_000)
                final = not isinstance(err, AGAIN) and not str(err).startswith(REFUSED)
                if final and self.over:
                    del self.session.attempts[self.id]
                elif final:
                    self.over = True
                    self.decided.set_exception(err)
            if call == self.leave:
                self.left.set()

    async def enter(self):
        s, reply = self.session, [-1]
        self.sent += 1
        while reply[0] == -1:  # it came too late, and did nothing
            sent, self.not_after = clock(), "%016d" % (s.offset + clock() + 3_000_000)
            reply = await s.call(
                "lock/enter", self.keys, self.ticket + "-", -(-self.lease // 1000), self.not_after,
                s.label, f"{self.queues} {LIFE} {s.heartbeat()} {KEEP_MS} PUBLISH {s.channel}")
            s.offset = int(reply[-1]) - clock()
        self.replied += 1
        if reply[0] == 1:
            self.granted(reply[1], deadline_of(sent, self.lease), self.lease)
            return random.uniform(self.lease / 12, self.lease / 3)
        return self.wait(self.queues, reply[1], reply[2])

    async def poll(self):
        s = self.session
        _, left, more, grants, states, now, _ = await s.call(
            "lock/poll", self.keys, s.id, LIFE, s.heartbeat(), s.label, "PUBLISH", s.channel,
            self.id + "f", KEEP_MS)
        s.offset = int(now) - clock()
        s.grants(grants)
        return self.wait(states == "1" or self.id in grants, left, more)

    def wait(self, queued, left, more):
        """Returns when a poll is due. Without a ticket the attempt is over."""
        if not queued and not self.stamp:
            self.over = True
            self.decided.set_result(None)
        usual = 1_000_000 if self.session.subscribed.is_set() else 100_000
        return 0 if more or self.over else min(random.uniform(0.8, 1) * usual, left + 1000)

    async def renew(self):
        sent, alive = clock(), -8
        with contextlib.suppress(errors.RedisError):
            (alive,) = await self.session.call(
                "holder/renew", self.keys[:1], self.ticket, self.lease // 1000)
        if alive == 0 or not self.held():
            self.over, self.deadline = True, 0  # it is lost
            return 0
        if alive == -8:
            return self.life / 12
        self.life, self.deadline = self.lease, max(self.deadline, deadline_of(sent, self.lease))
        return self.lease / 3

    async def leave(self):
        s, certain = self.session, int(self.held() and self.sent == self.replied == 1)
        reply = await s.call("lock/leave", self.keys, self.ticket, s.id, "PUBLISH", s.channel,
                             KEEP_MS, self.stamp, certain)
        self.released = reply[0] == 1
        if len(reply) == 4:  # another attempt of the session may hold the lock now
            s.grants(reply[2])
            if reply[3]:
                s.wake(self.keys[0])
        if self.sent > self.replied and reply[1] <= self.not_after:
            raise errors.TimeoutError("a lock/enter without a reply may still arrive")
        del s.attempts[self.id]
