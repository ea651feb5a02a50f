// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.util.concurrent.TimeUnit;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** The verbs of RCountDownLatch. Times are in milliseconds. */
final class LatchVerbs {
    private final RedissonClient client;
    private final String[] words; // number, thread, verb, arguments

    LatchVerbs(RedissonClient client, String[] words) {
        this.client = client;
        this.words = words;
    }

    static boolean has(String verb) {
        return verb.startsWith("latch-");
    }

    Object run() throws InterruptedException {
        RCountDownLatch latch = client.getCountDownLatch(words[3]);
        switch (words[2]) {
            case "latch-start": // name, count
                return latch.trySetCount(Long.parseLong(words[4]));
            case "latch-down": // name
                latch.countDown();
                return true;
            case "latch-count": // name
                return latch.getCount();
            case "latch-wait": // name, for how long
                return latch.await(Long.parseLong(words[4]), TimeUnit.MILLISECONDS);
            case "latch-delete": // name
                return latch.delete();
            default:
                throw new IllegalArgumentException("no verb: " + words[2]);
        }
    }
}
