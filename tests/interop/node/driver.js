// Does with Node's lock libraries what tests/interop.rs says, one line each way.
//
// Usage: node driver.js URL...
// try LIBRARY KEY TTL_MS -> held | busy | error WHY
// release                -> released | error WHY
"use strict";

const readline = require("node:readline");

const { Redis } = require("ioredis");
const beta = require("redlock");
const stable = require("redlock4");
const sesamecare = require("@sesamecare-oss/redlock");

const once = { retryCount: 0, automaticExtensionThreshold: 0 };

/** Of those that explain a refusal by one error for each server that voted against. */
async function isBusy(error, Taken) {
  const attempts = await Promise.all(error.attempts ?? []);
  const votes = attempts.flatMap((attempt) => [...attempt.votesAgainst.values()]);
  return votes.length > 0 && votes.every((vote) => vote instanceof Taken);
}

const libraries = {
  "redlock@5": (clients) => {
    const locks = new beta.default(clients, once);
    return {
      take: (key, ttl) => locks.acquire([key], ttl),
      isBusy: (error) => isBusy(error, beta.ResourceLockedError),
    };
  },
  "redlock@4": (clients) => {
    const locks = new stable(clients, once);
    return {
      take: async (key, ttl) => {
        const lock = await locks.lock(key, ttl);
        return { release: () => lock.unlock() };
      },
      // It has one error for all that keeps it from locking.
      isBusy: async (error) => error instanceof stable.LockError,
    };
  },
  "@sesamecare-oss/redlock": (clients) => {
    const locks = new sesamecare.Redlock(clients, once);
    return {
      take: (key, ttl) => locks.acquire([key], ttl),
      isBusy: (error) => isBusy(error, sesamecare.ResourceLockedError),
    };
  },
};

async function main() {
  const clients = process.argv.slice(2).map((url) => new Redis(url));
  let held;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, library, key, ttl] = line.split(" ");
    let said;
    try {
      if (word === "release") {
        await held.release();
        said = "released";
      } else {
        const locks = libraries[library](clients);
        try {
          held = await locks.take(key, Number(ttl));
          said = "held";
        } catch (error) {
          if (!(await locks.isBusy(error))) throw error;
          said = "busy";
        }
      }
    } catch (error) {
      said = `error ${error.message}`;
    }
    console.log(said.replaceAll("\n", " "));
  }
  clients.forEach((client) => client.disconnect());
}

main();
