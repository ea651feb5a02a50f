// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

import org.redisson.api.RBatch;
import org.redisson.api.RLock;
import org.redisson.api.RTransaction;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.StringCodec;

/**
 * The verbs of classes that are locks of other sorts, or take locks. Where a verb takes a class and names, the names go by commas. Times
 * are in milliseconds, and a lease of -1 is one that the watchdog renews.
 */
final class OtherVerbs {
    /** What has begun, by the name of its first key. */
    private static final Map<String, RTransaction> TRANSACTIONS = new ConcurrentHashMap<>();

    private final RedissonClient client;
    private final String[] words; // number, thread, verb, arguments

    OtherVerbs(RedissonClient client, String[] words) {
        this.client = client;
        this.words = words;
    }

    static boolean has(String verb) {
        return verb.startsWith("other-") || verb.startsWith("tx-") || verb.startsWith("batch-");
    }

    private String word(int index) {
        return words[3 + index];
    }

    private long number(int index) {
        return Long.parseLong(word(index));
    }

    Object run() throws Exception {
        switch (words[2]) {
            case "other-lock": // class, names, lease
                lock().lock(number(2), TimeUnit.MILLISECONDS);
                return true;
            case "other-try": // class, names, wait, lease
                return lock().tryLock(number(2), number(3), TimeUnit.MILLISECONDS);
            case "other-unlock": // class, names
                lock().unlock();
                return true;
            case "other-work": // class, names, times: until so many times it had all, and gave them back
                for (long n = 0; n < number(2); n++) {
                    RLock lock = lock();
                    lock.lock();
                    lock.unlock();
                }
                return true;
            case "tx-set": // name, value: in a transaction that continues
                RTransaction begun = client.createTransaction(TransactionOptions.defaults().timeout(1, TimeUnit.HOURS));
                begun.getBucket(word(0), StringCodec.INSTANCE).set(word(1));
                TRANSACTIONS.put(word(0), begun);
                return true;
            case "tx-commit": // name
                TRANSACTIONS.remove(word(0)).commit();
                return true;
            case "batch-set": // name, value
                RBatch batch = client.createBatch();
                batch.getBucket(word(0), StringCodec.INSTANCE).setAsync(word(1));
                batch.execute();
                return true;
            case "batch-locks": // what gives locks in a batch
                return locksOf(RBatch.class);
            default:
                throw new IllegalArgumentException("no verb: " + words[2]);
        }
    }

    private static String locksOf(Class<?> api) {
        return Arrays.stream(api.getMethods()).map(Method::getName)
            .filter(name -> name.endsWith("Lock") || name.endsWith("Semaphore") || name.endsWith("Latch"))
            .distinct().sorted().collect(Collectors.joining(","));
    }

    @SuppressWarnings("deprecation") // RedissonRedLock
    private RLock lock() throws Exception {
        List<String> names = List.of(word(1).split(","));
        RLock[] locks = names.stream().map(client::getLock).toArray(RLock[]::new);
        String first = names.get(0);
        switch (word(0)) {
            case "spin":
                return client.getSpinLock(first);
            case "once": // Redisson 4
                return (RLock) RedissonClient.class.getMethod("getNonReentrantLock", String.class).invoke(client, first);
            case "once-fair": // Redisson 4
                return (RLock) RedissonClient.class.getMethod("getNonReentrantFairLock", String.class).invoke(client, first);
            case "multi":
                return client.getMultiLock(locks);
            case "faster": // a group, and values in it
                return client.getMultiLock(first, List.copyOf(names.subList(1, names.size())));
            case "red":
                return client.getRedLock(locks);
            case "map": // a map, and a key in it
                return client.getMap(first, StringCodec.INSTANCE).getLock(names.get(1));
            default:
                throw new IllegalArgumentException("no class of locks: " + word(0));
        }
    }
}
