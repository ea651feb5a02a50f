// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.util.concurrent.TimeUnit;

import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The verbs of RedissonFairLock. */
final class FairVerbs {
    private final RedissonClient client;
    private final RLock lock;
    private final String[] words; // number, thread, verb, name, arguments

    FairVerbs(RedissonClient client, String[] words) {
        this.client = client;
        this.lock = client.getFairLock(words[3]);
        this.words = words;
    }

    private long number(int index) {
        return Long.parseLong(words[3 + index]);
    }

    Object run() throws InterruptedException {
        switch (words[2]) {
            case "fair-lock": // name, lease
                lock.lock(number(1), TimeUnit.MILLISECONDS);
                return true;
            case "fair-try": // name, wait, lease
                return lock.tryLock(number(1), number(2), TimeUnit.MILLISECONDS);
            case "fair-trynow": // name
                return lock.tryLock();
            case "fair-unlock": // name
                lock.unlock();
                return true;
            case "fair-force": // name
                return lock.forceUnlock();
            case "fair-locked": // name
                return lock.isLocked();
            case "fair-count": // name
                return lock.getHoldCount();
            case "fair-work": // name, counter, times
                return work(words[4], number(2));
            default:
                throw new IllegalArgumentException("no verb of a fair lock: " + words[2]);
        }
    }

    /**
     * Adds one to a counter many times, each time under the lock, by a read and a write that nothing else protects. Now and then it
     * gives up waiting after a moment, and comes again.
     */
    private long work(String name, long times) throws InterruptedException {
        RBucket<String> counter = client.getBucket(name, StringCodec.INSTANCE);
        for (long n = 0; n < times; n++) {
            if (n % 3 != 0 || !lock.tryLock(1 + n % 20, -1, TimeUnit.MILLISECONDS)) {
                lock.lock();
            }
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
