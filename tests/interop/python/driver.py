"""Does with redis-py's Lock what tests/interop.rs says, one line each way.

Usage: driver.py URL
try LIBRARY KEY TTL_MS -> held | busy | error WHY
release                -> released | error WHY
"""

import sys

import redis


def answer(client, held, words):
    if words[0] == "release":
        held.pop().release()
        return "released"
    _, _, key, ttl = words
    lock = client.lock(key, timeout=int(ttl) / 1000, blocking=False)
    if not lock.acquire():
        return "busy"
    held.append(lock)
    return "held"


def main():
    client = redis.Redis.from_url(sys.argv[1])
    held = []
    for line in sys.stdin:
        try:
            said = answer(client, held, line.split())
        except redis.RedisError as error:
            said = f"error {error}"
        print(said, flush=True)


main()
