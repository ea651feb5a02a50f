// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.util.concurrent.TimeUnit;

import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** One line: a verb and its arguments. Times are in milliseconds, and a lease of -1 is one that the watchdog renews. */
final class Verbs {
    private final RedissonClient client;
    private final String[] words; // number, thread, verb, arguments

    Verbs(RedissonClient client, String[] words) {
        this.client = client;
        this.words = words;
    }

    private String word(int index) {
        return words[3 + index];
    }

    private long number(int index) {
        return Long.parseLong(word(index));
    }

    private RLock lock() {
        return client.getLock(word(0));
    }

    Object run() throws Exception {
        if (OtherVerbs.has(words[2])) {
            return new OtherVerbs(client, words).run();
        }
        if (words[2].startsWith("rw.")) {
            return new ReadWriteVerbs(client, words).run();
        }
        if (SemaphoreVerbs.has(words[2])) {
            return new SemaphoreVerbs(client, words).run();
        }
        if (LatchVerbs.has(words[2])) {
            return new LatchVerbs(client, words).run();
        }
        switch (words[2]) {
            case "thread": // the number that Redisson knows this thread by
                return Thread.currentThread().getId();
            case "lock": // name, lease
                lock().lock(number(1), TimeUnit.MILLISECONDS);
                return true;
            case "try": // name, wait, lease
                return lock().tryLock(number(1), number(2), TimeUnit.MILLISECONDS);
            case "unlock": // name
                lock().unlock();
                return true;
            case "force": // name
                return lock().forceUnlock();
            case "locked": // name
                return lock().isLocked();
            case "mine": // name
                return lock().isHeldByCurrentThread();
            case "count": // name
                return lock().getHoldCount();
            case "ttl": // name
                return lock().remainTimeToLive();
            case "fence", "fence-try", "fence-token", "fence-work":
                return new FencedVerbs(client, words).run();
            case "fair-lock", "fair-try", "fair-trynow", "fair-unlock", "fair-force", "fair-locked", "fair-count", "fair-work":
                return new FairVerbs(client, words).run();
            case "work": // name, counter, times
                return work(word(1), number(2));
            default:
                return new BenchVerbs(client, words).run();
        }
    }

    /** Adds one to a counter many times, each time under the lock, by a read and a write that nothing else protects. */
    private long work(String name, long times) {
        RLock lock = lock();
        RBucket<String> counter = client.getBucket(name, StringCodec.INSTANCE);
        for (long n = 0; n < times; n++) {
            lock.lock();
            try {
                String text = counter.get();
                counter.set(String.valueOf(1 + (text == null ? 0 : Long.parseLong(text))));
            } finally {
                lock.unlock();
            }
        }
        return times;
    }
}
