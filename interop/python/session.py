# SPDX-License-Identifier: Apache-2.0
"""The session: calls, messages, heartbeats, and what runs in the background."""
import concurrent.futures
import hashlib
import heapq
import itertools
import os
import pathlib
import random
import socket
import subprocess
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from formats import LIVES, b64, clock, deadline_of, number_of, split_grants

SCRIPTS = ("session/hello", "lock/enter", "lock/poll", "lock/leave", "holder/renew")
DID_NOTHING = tuple("LOADING READONLY MASTERDOWN CLUSTERDOWN TRYAGAIN BUSY NOREPLICAS MISCONF OOM MOVED ASK".split())
NO_REPLY = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)
WAITS, HOLDS, OVER = "waits", "holds", "over"  # the states of an attempt


class Refused(Exception):
    """The server refused a call before it did anything. The call may be sent again."""


def load_scripts(folder=None):
    """Returns the scripts' texts: from <folder>/lock/enter.lua and so on, or as the print command prints them."""
    if folder:
        return {name: (pathlib.Path(folder) / (name + ".lua")).read_bytes() for name in SCRIPTS}
    root = pathlib.Path(__file__).resolve().parents[2]
    return {name: subprocess.check_output(["go", "run", "./scripts/print", name], cwd=root) for name in SCRIPTS}


class Session:
    """What the server takes for one client. Its threads: a listener, a timer, and those that run what is due."""

    def __init__(self, host, port, folder=None, prefix="sb:", label=None):
        self.id, self.pid, self.prefix = b64(os.urandom(16)), os.getpid(), prefix
        self.label = label if label is not None else f"{socket.gethostname()[:50]}:{self.pid}"
        self.channel = prefix + "grants:"
        self.texts = load_scripts(folder)
        self.digests = {name: hashlib.sha1(text).hexdigest() for name, text in self.texts.items()}
        options = dict(host=host, port=port, socket_timeout=1, socket_connect_timeout=1, decode_responses=True)
        self.redis = redis.Redis(retry=Retry(NoBackoff(), 0), **options)  # it must not send a call twice
        self.options = options
        self.cond = threading.Condition()  # guards all below, and the fields of attempts
        self.counter = itertools.count(1)
        self.attempts = {}  # attempt -> Attempt, until it is over
        self.numbers = {}  # number of a heartbeat -> its deadline, the oldest first
        self.jobs = []  # heap of (when, order, function, its arguments)
        self.offset, self.subscribed, self.closed = None, False, False
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._run_jobs, daemon=True).start()
        with self.cond:
            self.cond.wait_for(lambda: self.subscribed, 1)  # without it the first waits poll more often

    def close(self, timeout=3):
        """Waits until the undoing of attempts is done, and ends the threads."""
        with self.cond:
            self.cond.wait_for(lambda: not self.attempts, timeout)
            self.closed = True
            self.cond.notify_all()
        self.pool.shutdown()
        self.redis.close()

    def call(self, script, keys, args):
        """Sends a script. Returns the reply, and the moment before it was sent."""
        sent = clock()
        try:
            try:
                return self.redis.execute_command("EVALSHA", self.digests[script], len(keys), *keys, *args), sent
            except redis.exceptions.NoScriptError:
                return self.redis.execute_command("EVAL", self.texts[script], len(keys), *keys, *args), sent
        except (redis.exceptions.BusyLoadingError, redis.exceptions.ReadOnlyError) as err:
            raise Refused(str(err)) from err
        except redis.exceptions.ResponseError as err:
            if str(err).startswith(DID_NOTHING):
                raise Refused(str(err)) from err
            raise

    def heard(self, now):
        """Takes the server's time from a reply that has just come."""
        self.offset = int(now) - clock()

    def not_after(self):
        return "%016d" % (self.offset + clock() + 3_000_000)

    def heartbeat(self):
        """Returns a fresh number, whose life counts from now, since it is sent after that."""
        with self.cond:
            now = clock()
            while self.numbers and next(iter(self.numbers.values())) < now:
                del self.numbers[next(iter(self.numbers))]
            number = number_of(next(self.counter), os.urandom(6))
            self.numbers[number] = deadline_of(now, LIVES)
            return number

    def grants(self, text):
        """Hands grants of a message or a reply to their attempts."""
        for attempt, stamp, number in split_grants(text):
            with self.cond:
                a, deadline = self.attempts.get(attempt), self.numbers.get(number, 0)
                if a is None or a.state == HOLDS:
                    continue
                if a.state == OVER:
                    self.soon(0, a.undo)
                elif clock() < deadline:
                    a.have(stamp, deadline, LIVES)
                else:
                    a.due = 0  # a poll lengthens the hold, and its own number is in the reply
                self.cond.notify_all()

    def poll_now(self, holder=None):
        with self.cond:
            for a in self.attempts.values():
                a.due = 0 if holder in (None, a.keys[0]) else a.due
            self.cond.notify_all()

    # The background.

    def soon(self, delay, function, *args):
        with self.cond:
            heapq.heappush(self.jobs, (clock() + int(delay), next(self.counter), function, args))
            self.cond.notify_all()

    def _run_jobs(self):
        with self.cond:
            while not self.closed:
                wait = self.jobs[0][0] - clock() if self.jobs else 1_000_000
                # soon wakes this thread for a job that is due earlier
                if wait > 0:
                    self.cond.wait(wait / 1e6)
                else:
                    _, _, function, args = heapq.heappop(self.jobs)
                    self.pool.submit(function, *args)

    def _listen(self):
        """Reads messages. A connection that says nothing is asked once a second whether it is there."""
        forced = self.prefix + "session:" + self.id
        while not self.closed:
            conn, asked, confirmed = redis.Connection(**self.options), False, 0
            try:
                conn.connect()
                conn.send_command("SUBSCRIBE", self.channel + self.id, forced)
                while not self.closed:
                    if not conn.can_read(1):
                        if asked:
                            break
                        conn.send_command("PING", check_health=False)
                        asked = True
                        continue
                    message, asked = conn.read_response(), False
                    if message[0] == "subscribe":
                        confirmed += 1
                        if confirmed == 2:  # whatever came before that is lost
                            self.subscribed = True
                            self.poll_now()
                            self._ask_all()
                    elif message[0] == "message" and message[1] == forced:
                        self._ask_all(message[2])
                    elif message[0] == "message":
                        self.grants(message[2])
            except (redis.exceptions.RedisError, OSError):
                pass
            conn.disconnect()
            if self.subscribed:
                self.subscribed = False
                self.poll_now()
            else:
                time.sleep(random.uniform(0.05, 0.1))

    def _ask_all(self, holder=None):
        """A hold may have been taken by force."""
        with self.cond:
            for a in self.attempts.values():
                if a.state == HOLDS and holder in (None, a.keys[0]):
                    self.soon(0, a.renew, True)
