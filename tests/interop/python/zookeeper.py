"""Does with kazoo's locks what tests/interop.rs says, one line each way.

Usage: zookeeper.py HOSTS
try LIBRARY PATH TTL_S     -> held | busy | error WHY
acquire LIBRARY PATH TTL_S -> held | error WHY, when it is so
release                    -> released | error WHY

LIBRARY is lock, read or write. What other libraries call their nodes has to be said to it.
"""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

OTHERS = {
    "lock": ["-lock-", "__READ__", "__WRIT__"],
    "read": ["-lock-", "__WRIT__"],
    "write": ["-lock-", "__READ__", "__WRIT__"],
}


def answer(hosts, held, words):
    if words[0] == "release":
        client, lock = held.pop()
        lock.release()
        client.stop()
        return "released"
    wanted, library, path, ttl = words
    client = KazooClient(hosts, timeout=float(ttl))
    client.start(timeout=30)
    kinds = {"lock": client.Lock, "read": client.ReadLock, "write": client.WriteLock}
    lock = kinds[library](path, "kazoo", extra_lock_patterns=OTHERS[library])
    if not lock.acquire(blocking=wanted == "acquire"):
        client.stop()
        return "busy"
    held.append((client, lock))
    return "held"


def main():
    held = []
    for line in sys.stdin:
        try:
            said = answer(sys.argv[1], held, line.split())
        except KazooException as error:
            said = f"error {error!r}"
        print(said, flush=True)


main()
