# SPDX-License-Identifier: Apache-2.0
"""A process of test/interop: peer.py <host> <port> <scripts> <verb> <argument>...

work <times> <host> <port>   counts on that server, so often, or with 0 until the input ends;
                             says "done" and how often
hold <name> <lease>          says "held" and the token, and "lost" if the lock is lost
try <name> <timeout>         says "held" or "timeout"

It ends when its input ends. Leases and timeouts are seconds.
"""
import asyncio
import select
import sys

import redis

import signalbox


def say(*words):
    print(*words, flush=True)


def ends():
    """Reports whether the input has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


async def until_it_ends():
    while not ends():
        await asyncio.sleep(0.01)


def add_one(client, token):
    """Adds one by a read and a write that nothing but the lock protects."""
    latest = int(client.get("token") or 0)
    if token <= latest:
        raise RuntimeError(f"token {token} after {latest}")
    client.set("token", token)
    client.set("counter", int(client.get("counter") or 0) + 1)


async def work(session, times, host, port):
    client, done = redis.Redis(host, int(port)), 0
    while done < int(times) or (times == "0" and not ends()):
        try:
            async with session.lock("work") as held:
                add_one(client, held.token)
                done += 1
        except redis.exceptions.LockNotOwnedError:
            raise
        except redis.exceptions.LockError:
            pass  # it is sent again in the background
    return "done", done


async def hold(session, name, lease):
    async with session.lock(name, lease=float(lease)) as held:
        say("held", held.token)
        while held.held() and not ends():
            await asyncio.sleep(0.01)
        if not held.held():
            say("lost")
            await until_it_ends()


async def try_for(session, name, timeout):
    try:
        async with session.lock(name, float(timeout)):
            say("held")
            await until_it_ends()
    except TimeoutError:
        say("timeout")
        await until_it_ends()


async def main(host, port, scripts, verb, *arguments):
    async with signalbox.Session(host, int(port), scripts) as session:
        words = await {"work": work, "hold": hold, "try": try_for}[verb](session, *arguments)
    if words:
        say(*words)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
