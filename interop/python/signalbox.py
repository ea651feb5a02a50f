# SPDX-License-Identifier: Apache-2.0
"""A client of signalbox's default lock, written from scripts/README.md alone.

    session = Session("127.0.0.1", 6379, "folder/of/scripts")
    with session.lock("order/42", timeout=10) as hold:
        ...  # send hold.token with every write, and stop when hold.held() is False

It is for one server. It leaves out clusters (SPUBLISH, one key after TRYAGAIN, line/beat), hashed
names, lock/wait (one heartbeat for up to 100 locks: here each waiting thread polls for its own),
lock/requeue (threads queue as if each were a client), and the other kinds of lock.

The folder has lock/enter.lua and so on, as go run ./scripts/print lock/enter prints them. Timeouts
and leases are seconds, and all other times microseconds.
"""
import base64
import contextlib
import itertools
import os
import pathlib
import random
import re
import socket
import threading
import time

import redis
from redis import exceptions as errors
from redis.backoff import NoBackoff
from redis.retry import Retry

LIVES = 3_000_000  # for how long a heartbeat makes the session count as living
KEEP_MS = 60_000  # how long the server remembers the last token of an idle lock
NEVER = 1 << 62
# Errors after which a call may be sent again: classes of redis-py, or the first word of the text.
AGAIN = (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError,
         getattr(errors, "OutOfMemoryError", ()))
REFUSED = tuple("MASTERDOWN CLUSTERDOWN TRYAGAIN BUSY NOREPLICAS MISCONF OOM MOVED ASK".split())


class Again(Exception):
    """A call has no reply, or was refused, and may be sent again."""


def encode(name):
    """Encodes a name (bytes or text) for keys."""
    name = name.encode() if isinstance(name, str) else name
    return re.sub(r"[%{}\x00-\x1f\x7f-\x9f\udc80-\udcff]",
                  lambda m: "".join("%%%02X" % b for b in m[0].encode("utf-8", "surrogateescape")),
                  name.decode("utf-8", "surrogateescape"))


def keys_of(prefix, name):
    return [prefix + "{" + encode(name) + "}:" + part for part in ("lock", "line", "lives")]


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
    """One client of the server. A thread of it reads messages, another one renews and undoes."""

    def __init__(self, host, port, folder, prefix="sb:", label=None):
        self.id, self.pid, self.prefix = b64(os.urandom(16)), os.getpid(), prefix
        self.label = f"{socket.gethostname()[:50]}:{self.pid}" if label is None else label
        self.channel = prefix + "grants:"
        self.redis = redis.Redis(host, port, socket_timeout=1, socket_connect_timeout=1,
                                 decode_responses=True, retry=Retry(NoBackoff(), 0))
        self.scripts = {name: self.redis.register_script(
            pathlib.Path(folder, name + ".lua").read_bytes())
            for name in ("lock/enter", "lock/poll", "lock/leave", "holder/renew")}
        self.counter = itertools.count(1)
        self.cond = threading.Condition()  # guards all below, and the fields of holds
        self.attempts = {}  # id -> Hold, until nothing is left of it at the server
        self.numbers = {}  # number of a heartbeat -> its deadline
        self.offset = 0  # of the server's clock; the first lock/enter comes too late, and sets it
        self.subscribed = self.closed = False
        for run in self._listen, self._work:
            threading.Thread(target=run, daemon=True).start()
        with self.cond:
            self.cond.wait_for(lambda: self.subscribed, 1)  # without it waits poll more often

    def lock(self, name, timeout=None, lease=30.0):
        """Returns the hold, or None when the timeout is over. A timeout of 0 does not queue."""
        if os.getpid() != self.pid:
            raise RuntimeError("a process that was forked needs a session of its own")
        end = NEVER if timeout is None else clock() + int(timeout * 1e6)
        while True:
            hold = Hold(self, name, int(lease * 1000) * 1000, int(timeout != 0))
            if hold.acquire(end):
                return hold
            if clock() >= end:
                return None

    def close(self, timeout=3):
        """Waits until nothing is left at the server, and ends the threads."""
        with self.cond:
            self.cond.wait_for(lambda: not self.attempts, timeout)
            self.closed = True
            self.cond.notify_all()

    def call(self, script, keys, *args):
        """Runs a script. Returns the moment before it was sent, and the reply."""
        sent = clock()
        try:
            reply = self.scripts[script](keys, args)
        except errors.RedisError as err:
            if isinstance(err, AGAIN) or str(err).startswith(REFUSED):
                raise Again(str(err)) from err
            raise
        if reply[0] == -2:
            raise errors.ResponseError(f"{keys[0]} is in use by kind {reply[1]}")
        return sent, reply

    def heartbeat(self):
        """Returns a fresh number. Its life counts from now, and it is sent after that."""
        with self.cond:
            self.numbers = {n: end for n, end in self.numbers.items() if end > clock()}
            number = number_of(next(self.counter), os.urandom(6))
            self.numbers[number] = deadline_of(clock(), LIVES)
            return number

    def grants(self, text):
        """Hands the grants of a message or a reply to their attempts."""
        with self.cond:
            for attempt, stamp, number in split_grants(text):
                hold, deadline = self.attempts.get(attempt), self.numbers.get(number, 0)
                if hold and hold.next != hold.renew and not hold.granted(stamp, deadline, LIVES):
                    hold.due = 0  # a poll has its own number in the reply; or it leaves again
            self.cond.notify_all()

    def hurry(self, holder=None):
        """Makes the next call due of all attempts, or of those for one lock."""
        with self.cond:
            for hold in self.attempts.values():
                hold.due = 0 if holder in (None, hold.keys[0]) else hold.due
            self.cond.notify_all()

    def _work(self):
        """Makes the calls of attempts that do not wait: it renews, and it undoes."""
        while not self.closed:
            with self.cond:
                hold = min((h for h in self.attempts.values() if not h.waits()),
                           key=lambda h: h.due, default=None)
                pause = hold.due - clock() if hold else NEVER
                if pause > 0:
                    self.cond.wait(min(pause / 1e6, 1))
                    continue
            with contextlib.suppress(errors.ResponseError):
                hold.step()

    def _listen(self):
        """Reads messages. A connection that is silent for a second has to reply to a PING."""
        forced = self.prefix + "session:" + self.id
        while not self.closed:
            with contextlib.suppress(errors.RedisError, OSError), self.redis.pubsub() as pubsub:
                pubsub.subscribe(self.channel + self.id, forced)
                silent = 0
                while not self.closed and silent < 2:
                    message = pubsub.get_message(timeout=1)
                    silent = 0 if message else silent + 1
                    if not message:
                        pubsub.ping()
                    elif message["type"] == "subscribe" and message["data"] == 2:
                        self.subscribed = True
                        self.hurry()  # messages until now are lost
                    elif message["type"] == "message" and message["channel"] == forced:
                        self.hurry(message["data"])  # the renewal finds out
                    elif message["type"] == "message":
                        self.grants(message["data"])
            if self.subscribed:
                self.subscribed = False
                self.hurry()
            time.sleep(random.uniform(0.05, 0.1))


class Hold:
    """An attempt: one wish for a lock, from the first lock/enter until nothing is left of it.

    Its state is the call that it makes next: enter, poll, renew (it holds), or leave (it is over).
    Each of these methods returns in how many microseconds the next call is due.
    """

    def __init__(self, session, name, lease, queues):
        self.session, self.keys = session, keys_of(session.prefix, name)
        self.lease, self.queues = lease, queues
        self.id = attempt_id(next(session.counter), os.urandom(8))
        self.ticket = session.id + self.id + "f"
        self.next, self.due, self.pause = self.enter, 0, 5000
        self.enters, self.not_after = 0, ""
        self.doubt = False  # whether a lock/enter has no reply, and may still arrive
        self.stamp, self.deadline = "", 0
        self.sure, self.released = 0, None
        with session.cond:
            session.attempts[self.id] = self

    token = property(lambda self: token_of(self.stamp))

    def held(self):
        """Reports whether the lock is held for certain."""
        return self.next == self.renew and clock() < self.deadline

    def unlock(self):
        """Releases the lock. Raises LockNotOwnedError if it was lost before, and LockError if
        there is no reply. The release is repeated in the background then."""
        held = self.end()
        if not held or self.released == 0:
            raise errors.LockNotOwnedError(self.keys[0] + " was lost")
        if self.released is None:
            raise errors.LockError("the release of " + self.keys[0] + " is not confirmed")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.unlock()

    def end(self):
        """Leaves. Reports whether the lock was held until then."""
        with self.session.cond:
            held, self.next = self.held(), self.leave
            self.sure = int(held and self.enters == 1 and not self.doubt)
        if self.id in self.session.attempts:
            self.step()
        return held

    def waits(self):
        return self.next in (self.enter, self.poll)

    def acquire(self, end):
        """Reports whether the lock was acquired. If not, the attempt is over."""
        acquired = False
        try:
            while self.waits() and not (self.enters and clock() >= end):
                with self.session.cond:
                    pause = min(self.due, end) - clock()
                    if pause > 0:
                        self.session.cond.wait(pause / 1e6)
                        continue
                self.step()
            acquired = self.held()
            return acquired
        finally:
            if not acquired:
                with contextlib.suppress(errors.ResponseError):
                    self.end()

    def step(self):
        """Makes the next call, and sets when the one after that is due."""
        with self.session.cond:
            self.due = NEVER  # what makes a call due from here on is not forgotten
        try:
            delay, self.pause = self.next(), 5000
        except Again:
            if self.next == self.enter and not self.queues:
                raise
            delay = random.uniform(self.pause / 2, self.pause)
            self.pause = min(2 * self.pause, 1_000_000)
        with self.session.cond:
            self.due = min(self.due, clock() + int(delay))
            self.session.cond.notify_all()

    def enter(self):
        s, doubt = self.session, self.doubt
        self.not_after = "%016d" % (s.offset + clock() + 3_000_000)
        self.enters, self.doubt = self.enters + 1, True
        sent, reply = s.call(
            "lock/enter", self.keys, self.ticket, self.lease, self.not_after, self.queues, LIVES,
            s.heartbeat(), s.label, "PUBLISH", s.channel, KEEP_MS)
        self.doubt, s.offset = doubt, int(reply[-1]) - clock()
        if reply[0] == -1:
            self.enters -= 1  # it came too late, and did nothing
            return 0
        with s.cond:
            if reply[0] == 1:
                if not self.granted(reply[1], deadline_of(sent, self.lease), self.lease):
                    self.next = self.leave  # it came too late
                return NEVER  # the grant has set when the renewal is due
            if not self.queues:
                self.next = self.leave
                if not doubt:
                    del s.attempts[self.id]  # nothing is left behind
            elif self.waits():
                self.next = self.poll
        return self.delay(reply[1], reply[2])

    def poll(self):
        s = self.session
        _, (_, left, more, grants, places, now, _) = s.call(
            "lock/poll", self.keys, s.id, LIVES, s.heartbeat(), s.label, "PUBLISH", s.channel,
            self.id + "f", KEEP_MS)
        s.offset = int(now) - clock()
        s.grants(grants)
        with s.cond:
            if self.waits() and places == "0" and self.id not in grants:
                self.next = self.leave  # the ticket is gone
        return self.delay(left, more)

    def delay(self, left, more):
        usual = 1_000_000 if self.session.subscribed else 100_000
        return 0 if more else min(random.uniform(0.8, 1) * usual, left + 1000)

    def granted(self, stamp, deadline, life):
        """Called under cond. Returns False if the grant is not to be believed."""
        if clock() >= deadline or self.next == self.leave:
            return False
        for other in self.session.attempts.values():
            if other.keys == self.keys and other.next == other.renew and other.stamp < stamp:
                other.next, other.due = other.leave, 0  # at the server it is over
        self.deadline = max(deadline, self.deadline)  # a message may come before the reply
        if self.next != self.renew:
            self.next, self.stamp = self.renew, stamp
            self.due = clock() + int(random.uniform(life / 12, life / 3))
        return True

    def renew(self):
        s, held = self.session, [0]
        if self.held():
            sent, held = s.call("holder/renew", self.keys[:1], self.ticket, self.lease // 1000)
        if held[0] == -8:
            raise Again("the server refused it")
        with s.cond:
            if held[0] == 1 and self.held():
                self.deadline = max(self.deadline, deadline_of(sent, self.lease))
            elif self.next == self.renew:
                self.next, self.due = self.leave, 0  # it is lost
        return self.lease / 3

    def leave(self):
        s = self.session
        try:
            _, reply = s.call("lock/leave", self.keys, self.ticket, s.id, "PUBLISH", s.channel,
                              KEEP_MS, self.stamp, self.sure)
        except errors.ResponseError:
            s.attempts.pop(self.id, None)
            raise
        self.released = int(reply[0] == 1)
        if len(reply) > 1:
            s.offset = int(reply[1]) - clock()
        if len(reply) == 4:  # another attempt of the session may hold the lock now
            s.grants(reply[2])
            if reply[3]:
                s.hurry(self.keys[0])
        if self.doubt and reply[1] <= self.not_after:
            raise Again("a lock/enter without a reply may still arrive")
        with s.cond:
            s.attempts.pop(self.id, None)
        return NEVER
