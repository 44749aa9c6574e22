"""Does with Python's Redlocks what tests/interop says, one line each way.

Usage: quorum.py URL URL URL
try LIBRARY KEY TTL_MS -> held | busy | error WHY
release                -> released | error WHY
"""

import sys

import pottery
import redlock
from redis import Redis


class Pottery(pottery.Redlock):
    """Its keys begin with a word of its own otherwise."""

    _KEY_PREFIX = "lock"


def try_pottery(urls, key, ttl):
    masters = {Redis.from_url(url) for url in urls}
    name = key.removeprefix("lock:")
    lock = Pottery(key=name, masters=masters, auto_release_time=ttl / 1000)
    return lock.release if lock.acquire(blocking=False) else None


def try_redlock_ng(urls, key, ttl):
    # Its time limit of 100 ms is less than a busy machine needs.
    config = redlock.RedlockConfig(
        masters=urls, socket_timeout=5, socket_connect_timeout=5
    )
    locks = redlock.Redlock(config, retry_count=0)
    lock = locks.acquire(key, ttl)
    return (lambda: locks.release(lock)) if lock else None


LIBRARIES = {"pottery": try_pottery, "redlock-ng": try_redlock_ng}


def answer(urls, held, words):
    if words[0] == "release":
        held.pop()()
        return "released"
    _, library, key, ttl = words
    release = LIBRARIES[library](urls, key, int(ttl))
    if not release:
        return "busy"
    held.append(release)
    return "held"


def main():
    urls = sys.argv[1:]
    held = []
    for line in sys.stdin:
        try:
            said = answer(urls, held, line.split())
        except Exception as error:  # each library has errors of its own
            said = f"error {error!r}"
        print(said.replace("\n", " "), flush=True)


main()
