# SPDX-License-Identifier: Apache-2.0
"""A client of signalbox's default lock, written from scripts/README.md alone, for one server (no cluster).

    session = Session("127.0.0.1", 6379)
    with Lock(session, "order/42").lock(timeout=10) as hold:
        ...                     # send hold.token with every write; stop if hold.lost is set

All times are microseconds. session.py has the connections, and formats.py names, ids and arguments.
"""
import os
import random
import threading

import redis

from formats import attempt_id, clock, deadline_of, enter_args, keys_of, leave_args, poll_args, token_of
from session import NO_REPLY, HOLDS, OVER, WAITS, Refused, Session

NEVER = 1 << 62


class Lost(Exception):
    """The lock was lost before it was released."""


class Unconfirmed(Exception):
    """The release has no reply. It is sent again in the background."""


class WrongKind(Exception):
    """The name is used by another kind of lock, or its key by another program."""


class Attempt:
    """One wish for a lock, from the first lock/enter to the end of the hold: what lock and try_lock return."""

    def __init__(self, session, keys, lease):
        if os.getpid() != session.pid:
            raise RuntimeError("a process that was forked needs a session of its own")
        self.session, self.keys, self.lease = session, keys, lease
        self.id = attempt_id(next(session.counter), os.urandom(8))
        self.ticket = session.id + self.id + "f"
        self.state, self.lost = WAITS, threading.Event()
        self.due, self.queued = 0, False  # when the next call of the wait is due; whether there is a ticket
        self.enters, self.unanswered, self.last_not_after = 0, 0, ""
        self.stamp, self.deadline, self.life = "", 0, 0
        with session.cond:
            session.attempts[self.id] = self

    token = property(lambda self: token_of(self.stamp))

    def held(self):
        """Reports whether the client may still believe in the hold."""
        return self.state == HOLDS and clock() < self.deadline

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.unlock()

    def wait(self, queues, end):
        """Reports whether the lock was acquired. If not, the attempt is over, and has to be undone."""
        s, pause = self.session, 5000
        while True:
            with s.cond:
                while self.state == WAITS and clock() < min(self.due, end):
                    s.cond.wait(max(min(self.due, end) - clock(), 0) / 1e6)
                if self.state == WAITS and self.enters and clock() >= end:
                    self.state = OVER
                if self.state != WAITS:
                    return self.state == HOLDS
                self.due = NEVER  # what makes a poll due from here on is not forgotten
            try:
                delay, pause = self.poll() if self.queued else self.enter(queues), 5000
            except (Refused, *NO_REPLY):
                if not queues:
                    raise
                delay, pause = 250_000 if self.queued else random.uniform(pause / 2, pause), min(2 * pause, 1_000_000)
            with s.cond:
                self.due = min(self.due, clock() + int(delay))

    def enter(self, queues):
        """Asks for the lock or a ticket. Returns in how many microseconds the next call is due."""
        s = self.session
        if s.offset is None:
            reply, _ = s.call("session/hello", self.keys[:1], [])
            s.heard(reply[1])
            if reply[0] == 0:
                raise RuntimeError("the server is too old")
        self.last_not_after = s.not_after()
        self.enters, self.unanswered = self.enters + 1, self.unanswered + 1
        args = enter_args(self.ticket, self.lease, self.last_not_after, queues, s.heartbeat(), s.label, s.channel)
        try:
            reply, sent = s.call("lock/enter", self.keys, args)
        except NO_REPLY:
            raise  # it may be executed until the not-after
        except Exception:
            self.unanswered -= 1
            raise
        self.unanswered -= 1
        if reply[0] == -2:
            raise WrongKind(reply[1])
        s.heard(reply[-1])
        if reply[0] == -1:
            return self.enter(queues)  # it came too late; the clock is right now
        with s.cond:
            if reply[0] == 1 and not self.have(reply[1], deadline_of(sent, self.lease), self.lease):
                self.state = OVER  # it came too late
            if reply[0] == 0 and queues:
                self.queued = True
                return self.pause(reply[1], reply[2])
            if reply[0] == 0:
                self.state = OVER
                if not self.unanswered:
                    del s.attempts[self.id]  # nothing is left behind
        return 0

    def poll(self):
        """Sends a heartbeat. Returns in how many microseconds the next one is due."""
        s = self.session
        args = poll_args(s.id, s.heartbeat(), s.label, s.channel, self.id + "f")
        reply, _ = s.call("lock/poll", self.keys, args)
        if reply[0] == -2:
            raise WrongKind(reply[1])
        _, left, more, grants, places, now, _ = reply
        s.heard(now)
        s.grants(grants)
        with s.cond:
            if self.state == WAITS and places == "0" and self.id not in grants:
                self.state = OVER  # the ticket is gone
        return self.pause(left, more)

    def pause(self, left, more):
        usual = random.uniform(800_000, 1_000_000) if self.session.subscribed else random.uniform(80_000, 100_000)
        return 0 if more else min(usual, left + 1000)

    def have(self, stamp, deadline, life):
        """The lock was granted. Called under cond; returns False if it is too late."""
        if clock() >= deadline or self.state == OVER:
            return False
        for other in list(self.session.attempts.values()):
            if other.keys == self.keys and other.state == HOLDS and other.stamp < stamp:
                other.lose()  # the server has taken it for over
        if self.state == HOLDS:  # a message was here before the reply
            self.deadline = max(deadline, self.deadline)
            return True
        self.state, self.stamp, self.deadline, self.life = HOLDS, stamp, deadline, life
        self.session.soon(random.uniform(life / 12, life / 3), self.renew)
        self.session.soon(self.deadline - clock(), self.expire)
        return True

    def renew(self, asks=False):
        """Lengthens the hold, or only asks whether it is there."""
        if not self.held():
            return
        try:
            reply, sent = self.session.call("holder/renew", self.keys[:1], [self.ticket, str(0 if asks else self.lease // 1000)])
        except (Refused, redis.exceptions.RedisError):
            reply, sent = [-8], 0
        with self.session.cond:
            if not self.held():
                return
            if reply[0] == 0:
                self.lose()
            elif reply[0] != 1:
                self.session.soon(self.life / 12, self.renew, asks)
            elif not asks:
                self.deadline, self.life = max(self.deadline, deadline_of(sent, self.lease)), self.lease
                self.session.soon(self.lease / 3, self.renew)

    def expire(self):
        with self.session.cond:
            if self.state == HOLDS and clock() < self.deadline:
                self.session.soon(self.deadline - clock(), self.expire)
            elif self.state == HOLDS:
                self.lose()

    def lose(self):
        self.state = OVER
        self.lost.set()
        self.session.soon(0, self.undo)

    def unlock(self):
        with self.session.cond:
            held, self.state = self.held(), OVER
        reply = self.leave(sure=int(held and self.enters == 1 and self.unanswered == 0))
        if not held or reply and reply[0] != 1:
            raise Lost(self.keys[0])
        if not reply:
            raise Unconfirmed(self.keys[0])

    def leave(self, sure=0, pause=20_000):
        """Releases the lock or the ticket, and sees to it that nothing is left. Returns the reply, if there is one."""
        s = self.session
        try:
            reply, _ = s.call("lock/leave", self.keys, leave_args(self.ticket, s.id, s.channel, self.stamp, sure))
        except (Refused, *NO_REPLY):
            reply = None
        except redis.exceptions.ResponseError:  # final
            s.attempts.pop(self.id, None)
            raise
        if reply and len(reply) > 1:
            s.heard(reply[1])
        if reply and len(reply) == 4:  # it held the lock; another attempt of the session may have it now
            s.grants(reply[2])
            if reply[3]:
                s.poll_now(self.keys[0])
        with s.cond:
            if reply and (not self.unanswered or reply[1] > self.last_not_after):
                s.attempts.pop(self.id, None)
                s.cond.notify_all()
            elif self.id in s.attempts:
                s.soon(pause, self.undo, min(2 * pause, 1_000_000))
        return reply

    def undo(self, pause=20_000):
        """Called until the attempt is over for certain, by a caller that gave up and then in the background."""
        try:
            if self.id in self.session.attempts:
                self.leave(0, pause)
        except redis.exceptions.ResponseError:
            pass  # the caller has heard of it, or nobody is there to be told


class Lock:
    def __init__(self, session, name, lease=30.0):
        self.session, self.keys, self.lease = session, keys_of(session.prefix, name), int(lease * 1000) * 1000

    def try_lock(self):
        """Returns the hold, or None if another has the lock."""
        return self._acquire(0, 0)

    def lock(self, timeout=None):
        """Returns the hold, or None if the timeout (in seconds) is over. Without replies that takes a second longer."""
        return self._acquire(1, NEVER if timeout is None else clock() + int(timeout * 1e6))

    def _acquire(self, queues, end):
        while True:
            attempt = Attempt(self.session, self.keys, self.lease)
            acquired = False
            try:
                acquired = attempt.wait(queues, end)
            finally:
                if not acquired:
                    attempt.state = OVER  # a grant that comes now is released
                    attempt.undo()
            if acquired or clock() >= end:
                return attempt if acquired else None
