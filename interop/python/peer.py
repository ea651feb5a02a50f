# SPDX-License-Identifier: Apache-2.0
"""A process of test/interop: peer.py <host> <port> <scripts> <verb> <argument>...

work <times> <host> <port>   counts on that server, so often, or with 0 until the input ends;
                             says "done" and how often
hold <name> <lease>          says "held" and the token, and "lost" if the lock is lost
try <name> <timeout>         says "held" or "timeout"

It ends when its input ends. Leases and timeouts are seconds.
"""
import select
import sys

import redis

from signalbox import Session


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
    client, done = redis.Redis(host, int(port)), 0
    while done < int(times) or (times == "0" and not select.select([sys.stdin], [], [], 0)[0]):
        hold = session.lock("work")
        add_one(client, hold.token)
        done += 1
        try:
            hold.unlock()
        except redis.exceptions.LockNotOwnedError:
            raise
        except redis.exceptions.LockError:
            pass  # it is sent again in the background
    session.close()
    say("done", done)


def hold(session, name, lease):
    held = session.lock(name, lease=float(lease))
    say("held", held.token)
    while held.held() and not select.select([sys.stdin], [], [], 0.01)[0]:
        pass
    if not held.held():
        say("lost")
        sys.stdin.read()
    held.unlock()
    session.close()


def try_for(session, name, timeout):
    held = session.lock(name, float(timeout))
    say("held" if held else "timeout")
    sys.stdin.read()
    if held:
        held.unlock()
    session.close()


if __name__ == "__main__":
    host, port, scripts, verb = sys.argv[1:5]
    verbs = {"work": work, "hold": hold, "try": try_for}
    verbs[verb](Session(host, int(port), scripts), *sys.argv[5:])
