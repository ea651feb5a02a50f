# SPDX-License-Identifier: Apache-2.0
"""Compares signalbox.py with scripts/testdata/vectors.json. It needs redis-py, but no server."""
import asyncio
import functools
import hashlib
import json
import pathlib
import types
import unittest
from unittest import mock

import signalbox

ROOT = pathlib.Path(__file__).resolve().parents[3]
VECTORS = json.loads((ROOT / "scripts/testdata/vectors.json").read_text("utf-8"))


class Vectors(unittest.TestCase):
    def each(self, kind):
        self.assertTrue(VECTORS[kind])
        for vector in VECTORS[kind]:
            with self.subTest(kind, **{k: str(v) for k, v in vector.items()}):
                yield vector

    def test_names(self):
        for v in self.each("names"):
            name, session = bytes.fromhex(v["name_hex"]), signalbox.b64(bytes(range(16)))
            self.assertEqual(signalbox.encode(name), v["encoded"])
            self.assertEqual("%sha256-" + hashlib.sha256(name).hexdigest()[:40], v["hashed"])
            self.assertEqual(signalbox.keys_of(v["prefix"], name),
                             [v["holder"], v["queue"], v["heartbeats"]])
            self.assertEqual(v["prefix"] + "grants:" + session, v["grants"])
            self.assertEqual(v["prefix"] + "session:" + session, v["session_channel"])

    def test_ids(self):
        for v in self.each("ids"):
            session = signalbox.b64(bytes.fromhex(v["session_hex"]))
            attempt = signalbox.attempt_id(v["counter"], bytes.fromhex(v["random_hex"]))
            self.assertEqual((session, attempt), (v["session"], v["attempt"]))
            self.assertEqual(session + attempt + v["mode"], v["ticket"])

    def test_numbers(self):
        for v in self.each("numbers"):
            number = signalbox.number_of(v["counter"], bytes.fromhex(v["random_hex"]))
            self.assertEqual(number, v["number"])

    def test_tokens(self):
        for v in self.each("tokens"):
            token = signalbox.token_of(v["stamp"])
            self.assertEqual(token, v["first_token"])
            self.assertEqual(token + 4 * 256 - 1, v["last_token_of_the_block"])

    def test_deadlines(self):
        for v in self.each("deadlines"):
            self.assertEqual(signalbox.deadline_of(v["sent_us"], v["life_us"]), v["deadline_us"])

    def test_holder_values(self):
        """The client reads no holder key; this is how the page describes one."""
        for v in self.each("holder_values"):
            kind, stamp, ticket, mark = (v["value"][i:j] for i, j in
                                         ((3, 4), (4, 20), (20, 62), (62, 63)))
            ticket = "" if ticket == 42 * "-" else ticket
            self.assertEqual((kind, stamp, ticket, mark == "q", v["value"][63:]),
                             (v["kind"], v["stamp"], v["ticket"], v["marked"], v["label"]))

    def test_grants(self):
        for v in self.each("grants"):
            grants = [dict(zip(("attempt", "stamp", "number"), grant))
                      for grant in signalbox.split_grants(v["text"])]
            self.assertEqual(grants, v["grants"])

    def test_exchange(self):
        """The calls of a recorded exchange are those that this client sends, at the same time."""
        for v in self.each("exchange"):
            if v["script"] == "lock/free":
                continue  # this client releases by lock/leave
            asyncio.run(self.exchange(v["script"], int(v["now"]), v["args"], v["reply"]))

    async def exchange(self, script, now, args, reply):
        calls = []

        async def run(keys, words):
            calls.append((script, keys, *words))
            return reply

        ticket = args[0] + args[6] if script == "lock/poll" else args[0].removesuffix("-")
        session = types.SimpleNamespace(
            id=ticket[:22], prefix="sb:", label="host:1", channel="sb:grants:", offset=0,
            counter=iter([1]), attempts={}, subscribed=asyncio.Event(), scripts={script: run},
            heartbeat=lambda: args[2] if script == "lock/poll" else args[4].split()[2],
            grants=lambda text: None, wake=lambda holder: None)
        session.call = functools.partial(signalbox.Session.call, session)
        with mock.patch.object(signalbox, "clock", lambda: now):
            attempt = signalbox.Attempt(session, "a", 30_000_000, 1)
            attempt.task.cancel()
            attempt.id, attempt.ticket = ticket[22:41], ticket
            session.attempts = {attempt.id: attempt}
            if script == "lock/leave":
                attempt.stamp, attempt.deadline = args[5], now + 1
                attempt.sent = attempt.replied = int(args[6])
            await getattr(attempt, script.rpartition("/")[2])()
        self.assertEqual(calls[0][:2], (script, attempt.keys))
        self.assertEqual([str(arg) for arg in calls[0][2:]], args)


if __name__ == "__main__":
    unittest.main()
