# SPDX-License-Identifier: Apache-2.0
"""A process of test/interop: peer.py <host> <port> <scripts> <verb> <argument>... It ends when its input ends.

work <times> <host> <port>   counts on that server, so often, or with 0 until the input ends; says "done" and how often
hold <name> <lease>          says "held" and the token, and "lost" if the lock is lost; the lease is in seconds
try <name> <timeout>         says "held" or "timeout"; the timeout is in seconds
"""
import select
import sys
import threading

import redis

from signalbox import Lock, Session, Unconfirmed


def say(*words):
    print(*words, flush=True)


def add_one(client, token):
    """Adds one by a read and a write that nothing but the lock protects."""
    latest = int(client.get("token") or 0)
    if token <= latest:
        raise RuntimeError(f"token {token} after {latest}")
    client.set("token", token)
    client.set("counter", int(client.get("counter") or 0) + 1)


def work(session, times, host, port):
    client, lock, done = redis.Redis(host, int(port)), Lock(session, "work"), 0
    while done < int(times) or (times == "0" and not select.select([sys.stdin], [], [], 0)[0]):
        hold = lock.lock()
        add_one(client, hold.token)
        done += 1
        try:
            hold.unlock()
        except Unconfirmed:
            pass  # it is sent again in the background
    session.close()
    say("done", done)


def hold(session, name, lease):
    held = Lock(session, name, float(lease)).lock()
    say("held", held.token)
    threading.Thread(target=lambda: held.lost.wait() and say("lost"), daemon=True).start()
    sys.stdin.read()
    held.unlock()
    session.close()


def try_for(session, name, timeout):
    held = Lock(session, name).lock(float(timeout)) if float(timeout) else Lock(session, name).try_lock()
    say("held" if held else "timeout")
    sys.stdin.read()
    if held:
        held.unlock()
    session.close()


if __name__ == "__main__":
    where, verb = sys.argv[1:4], sys.argv[4]
    {"work": work, "hold": hold, "try": try_for}[verb](Session(where[0], int(where[1]), where[2]), *sys.argv[5:])
