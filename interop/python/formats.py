# SPDX-License-Identifier: Apache-2.0
"""Names, ids, times and arguments, as scripts/README.md has them. test_vectors.py compares them with the vectors."""
import base64
import hashlib
import time

LIVES = 3_000_000  # for how long a heartbeat makes the session count as living
KEEP_MS = "60000"  # how long the server remembers the last token of an idle lock


# Names, ids and times.

def encode(name):
    """Encodes a name (bytes, or a text) for keys."""
    name = name.encode() if isinstance(name, str) else name
    text = []
    for char in name.decode("utf-8", "surrogateescape"):
        plain = char not in "%{}" and not char < " " and not "\x7f" <= char <= "\x9f" and not "\udc80" <= char <= "\udcff"
        text.append(char if plain else "".join("%%%02X" % b for b in char.encode("utf-8", "surrogateescape")))
    return "".join(text)


def hashed(name):
    """Returns what a session that hides its names uses in place of the encoded name."""
    return "%sha256-" + hashlib.sha256(name).hexdigest()[:40]


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
    return [(text[i:i + 19], text[i + 19:i + 35], text[i + 35:i + 55]) for i in range(0, len(text) - 54, 55)]


def clock():
    """Counts while the machine is suspended too, where the system has such a clock."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


# The arguments of the calls.

def enter_args(ticket, life, not_after, queues, number, label, channel):
    return [ticket, str(life), not_after, str(queues), str(LIVES), number, label, "PUBLISH", channel, KEEP_MS]


def poll_args(session, number, label, channel, attempts):
    return [session, str(LIVES), number, label, "PUBLISH", channel, attempts, KEEP_MS]


def leave_args(ticket, session, channel, used, sure):
    return [ticket, session, "PUBLISH", channel, KEEP_MS, used, str(sure)]


def holder_of(value):
    """Returns kind, stamp, ticket ('' if there is no hold), mark and label of a holder key."""
    ticket = value[20:62]
    return value[3], value[4:20], "" if ticket == 42 * "-" else ticket, value[62:63] == "q", value[63:]
