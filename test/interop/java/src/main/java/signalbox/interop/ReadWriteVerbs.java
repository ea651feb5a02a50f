// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.util.Random;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RAtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** The verbs of read-write locks, which begin with "rw.". The side is "read" or "write"; the rest is as in Verbs. */
final class ReadWriteVerbs {
    private final RedissonClient client;
    private final String[] words; // number, thread, verb, name, arguments

    ReadWriteVerbs(RedissonClient client, String[] words) {
        this.client = client;
        this.words = words;
    }

    private String word(int index) {
        return words[4 + index];
    }

    private long number(int index) {
        return Long.parseLong(word(index));
    }

    private RReadWriteLock both() {
        return client.getReadWriteLock(words[3]);
    }

    private RLock lock() {
        return word(0).equals("read") ? both().readLock() : both().writeLock();
    }

    Object run() throws InterruptedException {
        switch (words[2]) {
            case "rw.lock": // name, side, lease
                lock().lock(number(1), TimeUnit.MILLISECONDS);
                return true;
            case "rw.try": // name, side, wait, lease
                return lock().tryLock(number(1), number(2), TimeUnit.MILLISECONDS);
            case "rw.unlock": // name, side
                lock().unlock();
                return true;
            case "rw.force": // name, side
                return lock().forceUnlock();
            case "rw.locked": // name, side
                return lock().isLocked();
            case "rw.mine": // name, side
                return lock().isHeldByCurrentThread();
            case "rw.count": // name, side
                return lock().getHoldCount();
            case "rw.ttl": // name, side
                return lock().remainTimeToLive();
            case "rw.work": // name, yard, times, seed
                return work(word(0), number(1), new Random(number(2)));
            default:
                throw new IllegalArgumentException("no verb: " + words[2]);
        }
    }

    /** Reads and writes in turns many times, and notes in counters who is in the yard: a writer is to be alone there. */
    private long work(String yard, long times, Random random) {
        RAtomicLong readers = client.getAtomicLong(yard + ":readers");
        RAtomicLong writers = client.getAtomicLong(yard + ":writers");
        for (long n = 0; n < times; n++) {
            boolean writes = random.nextInt(3) == 0;
            RLock lock = writes ? both().writeLock() : both().readLock();
            RAtomicLong mine = writes ? writers : readers;
            lock.lock();
            try {
                long here = mine.incrementAndGet();
                long others = writes ? readers.get() + here - 1 : writers.get();
                mine.decrementAndGet();
                if (others != 0) {
                    throw new IllegalStateException("a writer is not alone");
                }
            } finally {
                lock.unlock();
            }
        }
        return times;
    }
}
