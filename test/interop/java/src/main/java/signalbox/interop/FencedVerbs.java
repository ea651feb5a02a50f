// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.util.concurrent.TimeUnit;

import org.redisson.api.RFencedLock;
import org.redisson.api.RList;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The verbs of RFencedLock. Its unlock is that of RLock. */
final class FencedVerbs {
    private final RedissonClient client;
    private final RFencedLock lock;
    private final String[] words; // number, thread, verb, name, arguments

    FencedVerbs(RedissonClient client, String[] words) {
        this.client = client;
        this.lock = client.getFencedLock(words[3]);
        this.words = words;
    }

    private long number(int index) {
        return Long.parseLong(words[3 + index]);
    }

    private long work(String list, long times) {
        RList<String> tokens = client.getList(list, StringCodec.INSTANCE);
        for (long n = 0; n < times; n++) {
            long token = lock.lockAndGetToken();
            try {
                tokens.add(String.valueOf(token));
            } finally {
                lock.unlock();
            }
        }
        return times;
    }

    Object run() {
        switch (words[2]) {
            case "fence": // name, lease: acquires it, and returns its token
                return lock.lockAndGetToken(number(1), TimeUnit.MILLISECONDS);
            case "fence-try": // name, wait, lease: the token, or null
                return lock.tryLockAndGetToken(number(1), number(2), TimeUnit.MILLISECONDS);
            case "fence-token": // name: the last token that anybody got
                return lock.getToken();
            case "fence-work": // name, list, times: takes it many times, and writes down its token each time
                return work(words[4], number(2));
            default:
                throw new IllegalArgumentException("no verb of a fenced lock: " + words[2]);
        }
    }
}
