// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RSet;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * The verbs of semaphores: "permit-" for RPermitExpirableSemaphore, whose ids go by commas, and "plain-" for RSemaphore. Times are
 * in milliseconds, and a lease of -1 is one without an end.
 */
final class SemaphoreVerbs {
    private final RedissonClient client;
    private final String[] words; // number, thread, verb, arguments

    SemaphoreVerbs(RedissonClient client, String[] words) {
        this.client = client;
        this.words = words;
    }

    static boolean has(String verb) {
        return verb.startsWith("permit-") || verb.startsWith("plain-");
    }

    private String word(int index) {
        return words[3 + index];
    }

    private int number(int index) {
        return Integer.parseInt(word(index));
    }

    private long ms(int index) {
        return Long.parseLong(word(index));
    }

    private List<String> ids() {
        return List.of(word(1).split(","));
    }

    Object run() throws InterruptedException {
        return words[2].startsWith("permit-") ? permit(client.getPermitExpirableSemaphore(word(0))) : plain(client.getSemaphore(word(0)));
    }

    private Object permit(RPermitExpirableSemaphore semaphore) throws InterruptedException {
        switch (words[2]) {
            case "permit-found": // name, permits: where there is no semaphore yet
                return semaphore.trySetPermits(number(1));
            case "permit-set": // name, permits
                semaphore.setPermits(number(1));
                return true;
            case "permit-add": // name, permits
                semaphore.addPermits(number(1));
                return true;
            case "permit-take": // name, permits, lease
                return String.join(",", semaphore.acquire(number(1), ms(2), TimeUnit.MILLISECONDS));
            case "permit-try": // name, permits, wait, lease
                return String.join(",", semaphore.tryAcquire(number(1), ms(2), ms(3), TimeUnit.MILLISECONDS));
            case "permit-give": // name, id
                return semaphore.tryRelease(word(1));
            case "permit-give-all": // name, ids
                return semaphore.tryRelease(ids());
            case "permit-available": // name
                return semaphore.availablePermits();
            case "permit-acquired": // name
                return semaphore.acquiredPermits();
            case "permit-capacity": // name
                return semaphore.getPermits();
            case "permit-lengthen": // name, id, lease
                return semaphore.updateLeaseTime(word(1), ms(2), TimeUnit.MILLISECONDS);
            case "permit-left": // name, id
                return semaphore.getLeaseTime(word(1));
            case "permit-work": // name, set, capacity, times, lease
                return work(semaphore);
            default:
                throw new IllegalArgumentException("no verb: " + words[2]);
        }
    }

    private Object plain(RSemaphore semaphore) throws InterruptedException {
        switch (words[2]) {
            case "plain-found": // name, permits: where there is no semaphore yet
                return semaphore.trySetPermits(number(1));
            case "plain-add": // name, permits
                semaphore.addPermits(number(1));
                return true;
            case "plain-take": // name, permits
                semaphore.acquire(number(1));
                return true;
            case "plain-try": // name, permits, wait
                return semaphore.tryAcquire(number(1), Duration.ofMillis(ms(2)));
            case "plain-give": // name, permits
                semaphore.release(number(1));
                return true;
            case "plain-available": // name
                return semaphore.availablePermits();
            case "plain-drain": // name
                return semaphore.drainPermits();
            default:
                throw new IllegalArgumentException("no verb: " + words[2]);
        }
    }

    /**
     * Takes a permit many times, and each time counts the threads inside, which are members of a set. More of them than there
     * are permits is an error.
     */
    private long work(RPermitExpirableSemaphore semaphore) throws InterruptedException {
        RSet<String> inside = client.getSet(word(1), StringCodec.INSTANCE);
        String member = "java-" + words[1];
        for (int n = 0; n < number(3); n++) {
            String id = semaphore.acquire(ms(4), TimeUnit.MILLISECONDS);
            inside.add(member);
            int count = inside.size();
            if (count > number(2)) {
                throw new IllegalStateException(count + " are inside: " + inside.readAll());
            }
            inside.remove(member);
            if (!semaphore.tryRelease(id)) {
                throw new IllegalStateException("the permit was lost");
            }
        }
        return number(3);
    }
}
