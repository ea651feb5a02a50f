# SPDX-License-Identifier: Apache-2.0
"""Compares formats.py with scripts/testdata/vectors.json. Needs no server: python3 interop/python/test_vectors.py"""
import json
import pathlib
import unittest

import formats

VECTORS = json.loads((pathlib.Path(__file__).resolve().parents[2] / "scripts/testdata/vectors.json").read_text("utf-8"))


class Vectors(unittest.TestCase):
    def each(self, kind):
        self.assertTrue(VECTORS[kind])
        for vector in VECTORS[kind]:
            with self.subTest(kind, **{k: str(v) for k, v in vector.items()}):
                yield vector

    def test_names(self):
        for v in self.each("names"):
            name, session = bytes.fromhex(v["name_hex"]), formats.b64(bytes(range(16)))
            self.assertEqual(formats.encode(name), v["encoded"])
            self.assertEqual(formats.hashed(name), v["hashed"])
            self.assertEqual(formats.keys_of(v["prefix"], name), [v["holder"], v["queue"], v["lives"]])
            self.assertEqual(v["prefix"] + "grants:" + session, v["grants"])
            self.assertEqual(v["prefix"] + "session:" + session, v["session_channel"])

    def test_ids(self):
        for v in self.each("ids"):
            session = formats.b64(bytes.fromhex(v["session_hex"]))
            attempt = formats.attempt_id(v["counter"], bytes.fromhex(v["random_hex"]))
            self.assertEqual((session, attempt, session + attempt + v["mode"]), (v["session"], v["attempt"], v["ticket"]))

    def test_numbers(self):
        for v in self.each("numbers"):
            self.assertEqual(formats.number_of(v["counter"], bytes.fromhex(v["random_hex"])), v["number"])

    def test_tokens(self):
        for v in self.each("tokens"):
            self.assertEqual(formats.token_of(v["stamp"]), v["first_token"])
            self.assertEqual(formats.token_of(v["stamp"]) + 4 * 256 - 1, v["last_token_of_the_block"])

    def test_deadlines(self):
        for v in self.each("deadlines"):
            self.assertEqual(formats.deadline_of(v["sent_us"], v["life_us"]), v["deadline_us"])

    def test_holder_values(self):
        for v in self.each("holder_values"):
            kind, stamp, ticket, marked, label = formats.holder_of(v["value"])
            self.assertEqual((kind, stamp, ticket, marked, label),
                             (v["kind"], v["stamp"], v["ticket"], v["marked"], v["label"]))

    def test_grants(self):
        for v in self.each("grants"):
            self.assertEqual([dict(zip(("attempt", "stamp", "number"), g)) for g in formats.split_grants(v["text"])], v["grants"])

    def test_exchange(self):
        """The arguments of a recorded exchange are those that this client sends."""
        sends = {
            "lock/enter": lambda a: formats.enter_args(a[0], int(a[1]), a[2], a[3], a[5], a[6], a[8]),
            "lock/poll": lambda a: formats.poll_args(a[0], a[2], a[3], a[5], a[6]),
            "lock/leave": lambda a: formats.leave_args(a[0], a[1], a[3], a[5], a[6]),
        }
        for v in self.each("exchange"):
            self.assertEqual(sends[v["script"]](v["args"]), v["args"])


if __name__ == "__main__":
    unittest.main()
