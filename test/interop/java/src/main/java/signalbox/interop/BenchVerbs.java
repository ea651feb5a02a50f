// SPDX-License-Identifier: Apache-2.0

package signalbox.interop;

import java.util.StringJoiner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * The verbs of bench: loops that run here, so that nothing of them crosses the pipe to the process that measures. A kind is lock,
 * fair, write or read.
 */
final class BenchVerbs {
    private static RedissonClient other; // for locks, that of a second process; made when it is needed

    private final RedissonClient client;
    private final String[] words; // number, thread, verb, arguments

    BenchVerbs(RedissonClient client, String[] words) {
        this.client = client;
        this.words = words;
    }

    private String word(int index) {
        return words[3 + index];
    }

    private int number(int index) {
        return Integer.parseInt(word(index));
    }

    Object run() throws InterruptedException {
        switch (words[2]) {
            case "bench-loop": // kind, name, milliseconds: locks and unlocks; returns how often, and the nanoseconds
                return loop(lock(client, word(1)), number(2));
            case "bench-pass": // kind, name, milliseconds, least and further wait in microseconds: returns each hand-off's nanoseconds
                return pass(lock(client, word(1)), lock(other(client), word(1)), number(2), number(3), number(4));
            case "bench-hold": // kind, prefix of names, how many: takes locks that the watchdog renews
                for (int i = 0; i < number(2); i++) {
                    lock(client, word(1) + i).lock();
                }
                return true;
            case "bench-drop": // kind, prefix of names, how many: releases them; returns how many were there still
                int there = 0;
                for (int i = 0; i < number(2); i++) {
                    RLock lock = lock(client, word(1) + i);
                    if (lock.isHeldByCurrentThread()) {
                        lock.unlock();
                        there++;
                    }
                }
                return there;
            case "bench-read": // -, name, from, how many: readers that are as many threads to Redisson
                for (int i = number(2); i < number(2) + number(3); i++) {
                    lock(client, word(1)).lockAsync(1, TimeUnit.HOURS, i).toCompletableFuture().join();
                }
                return true;
            case "bench-leave": // -, name, from, how many: lets them leave one after the other
                for (int i = number(2); i < number(2) + number(3); i++) {
                    lock(client, word(1)).unlockAsync(i).toCompletableFuture().join();
                }
                return true;
            default:
                throw new IllegalArgumentException("no verb: " + words[2]);
        }
    }

    /** The lock of that name, of the kind that the line names. */
    private RLock lock(RedissonClient of, String name) {
        switch (word(0)) {
            case "lock":
                return of.getLock(name);
            case "fair":
                return of.getFairLock(name);
            case "write":
                return of.getReadWriteLock(name).writeLock();
            case "read":
                return of.getReadWriteLock(name).readLock();
            default:
                throw new IllegalArgumentException("no kind: " + word(0));
        }
    }

    private static synchronized RedissonClient other(RedissonClient client) {
        if (other == null) {
            other = Redisson.create(client.getConfig());
        }
        return other;
    }

    private static String loop(RLock lock, long milliseconds) {
        long ops = 0, began = System.nanoTime(), ends = began + milliseconds * 1_000_000, now = began;
        for (; now < ends; now = System.nanoTime()) {
            lock.lock();
            lock.unlock();
            ops++;
        }
        return ops + "," + (now - began);
    }

    /** Two threads pass a lock to and fro: one holds it, the other waits. Each belongs to a client of its own. */
    private static String pass(RLock mine, RLock theirs, long milliseconds, int least, int spread) throws InterruptedException {
        Side[] sides = {new Side(mine), new Side(theirs)};
        StringJoiner took = new StringJoiner(",");
        sides[0].take();
        int turn = 0;
        for (long ends = System.nanoTime() + milliseconds * 1_000_000; System.nanoTime() < ends || took.length() == 0; turn = 1 - turn) {
            sides[1 - turn].begin();
            TimeUnit.MICROSECONDS.sleep(least + ThreadLocalRandom.current().nextInt(spread));
            long gave = sides[turn].give();
            took.add(String.valueOf(sides[1 - turn].taken() - gave));
        }
        sides[turn].give();
        for (Side side : sides) {
            side.thread.interrupt();
        }
        return took.toString();
    }

    /** A thread that locks and unlocks on request. Only it can: the owner of a lock is the thread. */
    private static final class Side {
        final BlockingQueue<Runnable> orders = new LinkedBlockingQueue<>();
        final BlockingQueue<Long> replies = new LinkedBlockingQueue<>();
        final RLock lock;
        final Thread thread;

        Side(RLock lock) {
            this.lock = lock;
            this.thread = new Thread(this::serve);
            thread.setDaemon(true);
            thread.start();
        }

        private void serve() {
            try {
                while (true) {
                    orders.take().run();
                }
            } catch (InterruptedException e) {
                return; // the end
            }
        }

        /** Begins to wait for the lock. */
        void begin() {
            orders.add(() -> {
                lock.lock();
                replies.add(System.nanoTime());
            });
        }

        /** Returns when the lock was taken. */
        long taken() throws InterruptedException {
            return replies.take();
        }

        void take() throws InterruptedException {
            begin();
            taken();
        }

        /** Releases the lock, and returns when that began. */
        long give() throws InterruptedException {
            orders.add(() -> {
                long gave = System.nanoTime();
                lock.unlock();
                replies.add(gave);
            });
            return replies.take();
        }
    }
}
